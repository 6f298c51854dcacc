internal import Digests
internal import DiskRecords
package import HTTPValues
package import IPCProtocol
package import JSONCoding

/// The bytes of an original and the results that were made of them, for the next process.
package struct KeptContent: Equatable, Sendable, FieldList {
    /// The SHA-256 of the original's bytes, 64 hexadecimal digits.
    package var digest: String
    package var owner: UInt32?
    /// The layout of stored pixels; nil for encoded bytes.
    package var pixels: StoredPixels?
    package var bytes: Int
    /// The image's header; nil when it was not read yet.
    package var header: ImageHeader?
    package var originals: [KeptOriginal] = []
    package var buffers: [KeptBuffer] = []

    var key: ContentKey? {
        ContentDigest(hexadecimal: digest).map { ContentKey(digest: $0, owner: owner, pixels: pixels) }
    }

    package static var blank: KeptContent { KeptContent(digest: "", bytes: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.digest("digest", &digest)
        fields.user("owner", &owner)
        fields.object("pixels", &pixels)
        fields.integer("bytes", &bytes, in: 0...Int.max)
        fields.object("header", &header)
        fields.objects("originals", &originals)
        fields.objects("buffers", &buffers)
    }
}

/// A key that leads to a content, and the origin's response.
package struct KeptOriginal: Equatable, Sendable, FieldList {
    package var url: String
    package var cacheKey: String?
    /// The digest of the request's headers, 64 hexadecimal digits; nil for none.
    package var headers: String?
    package var credentials: String?
    package var cookies = false
    package var allowInvalidCertificates = false
    package var owner: UInt32?
    package var response: ResponseRecord
    package var varyKey: String?
    package var isFromDisk = false
    package var isOnDisk = false
    package var staysOffDisk = false

    package static var blank: KeptOriginal { KeptOriginal(url: "", response: .blank) }

    package mutating func list(_ fields: inout Fields) {
        fields.string("url", &url, most: SourceURL.maximumLength)
        fields.string("cacheKey", &cacheKey)
        fields.string("headers", &headers)
        fields.string("credentials", &credentials)
        fields.flag("cookies", &cookies)
        fields.flag("allowInvalidCertificates", &allowInvalidCertificates)
        fields.user("owner", &owner)
        fields.object("response", &response)
        fields.string("varyKey", &varyKey)
        fields.flag("isFromDisk", &isFromDisk)
        fields.flag("isOnDisk", &isOnDisk)
        fields.flag("staysOffDisk", &staysOffDisk)
    }
}

package struct KeptBuffer: Equatable, Sendable, FieldList {
    package struct Place: Equatable, Sendable, FieldList {
        /// The number of the memfd's descriptor, where the next process inherits it; nil where it finds it by its
        /// inode.
        package var descriptor: Int?
        /// The memfd's inode, which no other memfd has while the machine runs.
        package var inode: Int

        package init(descriptor: Int?, inode: Int) { (self.descriptor, self.inode) = (descriptor, inode) }

        package static var blank: KeptBuffer.Place { KeptBuffer.Place(descriptor: nil, inode: 0) }

        package mutating func list(_ fields: inout Fields) {
            fields.integer("descriptor", &descriptor, in: 0...Int(Int32.max))
            fields.integer("inode", &inode, in: Int.min...Int.max)
        }
    }

    package var number: Int
    package var transform: Transform?
    package var encoding: Encoding?
    package var bytes: Int
    package var geometry: PixelGeometry?
    /// The time to make it again.
    package var microseconds: Int
    /// The number of its uses, at most 255.
    package var uses: Int
    /// The milliseconds since it was used last.
    package var idleMs: Int
    package var wasRequested: Bool
    /// Its memfd; nil if it is in a segment, or the state has its bytes.
    package var place: Place?
    package var segment: Segments.Place?
    /// Its bytes, if it has no memfd and no place in a segment.
    package var contents: [UInt8] = []

    /// Whether the state has its bytes.
    package var hasContents: Bool { place == nil && segment == nil }

    var form: Form {
        guard let transform else { return .original }
        return encoding.map { .encoded(transform, $0) } ?? .pixels(transform)
    }

    /// Forty days.
    static let mostIdleMs = 40 * 86_400_000

    package static var blank: KeptBuffer {
        KeptBuffer(number: 1, bytes: 1, microseconds: 0, uses: 1, idleMs: 0, wasRequested: false)
    }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("number", &number, in: 1...JSONReader.maximumInteger)
        fields.object("transform", &transform)
        fields.object("encoding", &encoding)
        if encoding != nil, transform == nil { fields.note("transform", expected: "present with encoding") }
        fields.integer("bytes", &bytes, in: 0...Int.max)
        fields.object("geometry", &geometry)
        fields.integer("microseconds", &microseconds, in: 0...Int.max)
        fields.integer("uses", &uses, in: 1...255)
        fields.integer("idleMs", &idleMs, in: 0...Self.mostIdleMs)
        fields.boolean("wasRequested", &wasRequested)
        fields.object("place", &place)
        fields.object("inSegment", &segment)
    }
}

extension Segments.Place: FieldList {
    package static var blank: Segments.Place { Segments.Place(segment: 1, offset: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("segment", &segment, in: 1...JSONReader.maximumInteger)
        fields.integer("offset", &offset, in: 0...Int.max)
    }
}

extension PixelGeometry: FieldList {
    package mutating func list(_ fields: inout Fields) { fields.geometry("width", "height", &self) }
}

extension ImageHeader: FieldList {
    package mutating func list(_ fields: inout Fields) {
        fields.choice("format", &format)
        fields.geometry("width", "height", &geometry)
        fields.integer("frameCount", &frameCount, in: 1...Self.maximumFrames)
        fields.placeholder(&placeholder)
        fields.group(with: "delaysMs", &timing)
    }
}

extension KeptOriginal {
    init(_ key: OriginalKey, _ original: OriginalFacts) {
        self.init(
            url: key.url.text, cacheKey: key.cacheKey, headers: key.headers?.hexadecimal,
            credentials: key.credentials, cookies: key.cookies,
            allowInvalidCertificates: key.allowInvalidCertificates, owner: key.owner,
            response: original.origin.response, varyKey: original.origin.varyKey, isFromDisk: original.isFromDisk,
            isOnDisk: original.isOnDisk, staysOffDisk: original.staysOffDisk)
    }

    /// Its key; nil for one that no request can have.
    var key: OriginalKey? {
        let known = SourceURL(canonical: url)
        // A local file's name is no URL.
        if !known.isFile {
            guard let read = try? SourceURL(url), read.text.hasSameBytes(as: url) else { return nil }
        }
        let digest = headers.flatMap { ContentDigest(hexadecimal: $0) }
        if headers != nil, digest == nil { return nil }
        return OriginalKey(
            url: known, cacheKey: cacheKey, headers: digest, credentials: credentials, cookies: cookies,
            allowInvalidCertificates: allowInvalidCertificates, owner: owner)
    }
}

extension Fields {
    /// The inode of a mount namespace.
    mutating func namespace(_ name: StaticString, _ value: inout UInt64?) {
        var inode = value.map { Int(truncatingIfNeeded: $0) }
        integer(name, &inode, in: Int.min...Int.max)
        value = inode.map { UInt64(truncatingIfNeeded: $0) }
    }
}
