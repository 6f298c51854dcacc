package import HTTPValues
package import IPCProtocol
package import JSONCoding

/// The metadata of an original, as stored in its file on disk.
package struct OriginalRecord: Equatable, Sendable {
    /// The key as letters and digits, used as the file's name.
    package var key: String
    /// The URL, by which `forget` finds the original.
    package var url: String
    /// The user who owns the original; nil when it is shared by all.
    package var owner: UInt32?
    /// The SHA-256 of the bytes, 64 hexadecimal digits.
    package var digest: String
    package var bytes: Int
    /// The origin's most recent response header.
    package var response: ResponseRecord
    /// The request fields that the response depends on (`Vary`), in normalized form; nil when it depends on no field.
    package var varyKey: String?
    /// The layout of stored pixels; nil for encoded bytes.
    package var pixels: StoredPixels?

    package init(
        key: String, url: String, owner: UInt32?, digest: String, bytes: Int, response: ResponseRecord,
        varyKey: String? = nil
    ) {
        (self.key, self.url, self.owner) = (key, url, owner)
        (self.digest, self.bytes, self.response, self.varyKey) = (digest, bytes, response, varyKey)
    }
}

/// A variant of an original, as stored in its file on disk: pixels, or a re-encoded image.
package struct RasterRecord: Equatable, Sendable {
    /// The SHA-256 of the original's bytes, 64 hexadecimal digits.
    package var original: String
    /// The variant's description and the decoder's version; together with `original`, the raster's name.
    package var form: String
    package var header: ImageHeader
    package var geometry: PixelGeometry
    /// The length of the file's contents in bytes.
    package var bytes: Int

    /// Creates a raster of the original with that digest; `bytes` defaults to the size of its pixels.
    package init(original: String, form: String, header: ImageHeader, geometry: PixelGeometry, bytes: Int? = nil) {
        (self.original, self.form, self.header) = (original, form, header)
        (self.geometry, self.bytes) = (geometry, bytes ?? geometry.bytes)
    }
}

extension OriginalRecord: FieldList {
    package static var blank: OriginalRecord {
        OriginalRecord(key: "", url: "", owner: nil, digest: "", bytes: 0, response: .blank)
    }

    package mutating func list(_ fields: inout Fields) {
        fields.string("key", &key)
        fields.string("url", &url)
        fields.user("owner", &owner)
        fields.digest("digest", &digest)
        fields.integer("bytes", &bytes, in: 0...Int.max)
        fields.object("response", &response)
        fields.string("varyKey", &varyKey)
        fields.object("pixels", &pixels)
    }
}

extension RasterRecord: FieldList {
    package static var blank: RasterRecord {
        RasterRecord(original: "", form: "", header: .blank, geometry: .blank, bytes: 1)
    }

    package mutating func list(_ fields: inout Fields) {
        fields.digest("original", &original)
        fields.string("form", &form)
        fields.choice("format", &header.format)
        fields.geometry("sourceWidth", "sourceHeight", &header.geometry)
        fields.integer("frameCount", &header.frameCount, in: 1...ImageHeader.maximumFrames)
        fields.geometry("width", "height", &geometry)
        fields.integer("bytes", &bytes, in: 1...Int.max)
        fields.placeholder(&header.placeholder)
    }
}

extension Fields {
    /// A SHA-256, as 64 hexadecimal digits in lower case, which is the only text for it.
    package mutating func digest(_ name: StaticString, _ value: inout String) {
        string(name, &value)
        if isReading, !HexadecimalDigit.isDigest(value) {
            note("\(name)", expected: "a SHA-256 of 64 hexadecimal digits in lower case")
        }
    }

    /// A user's id, absent when it is nil.
    package mutating func user(_ name: StaticString, _ value: inout UInt32?) {
        var number = value.map { Int($0) }
        integer(name, &number, in: 0...Int(UInt32.max))
        value = number.map { UInt32($0) }
    }
}

/// An image that has crashed decoders, recorded across restarts of the broker.
package struct QuarantineRecord: Equatable, Sendable {
    /// The maximum length of a build's name, in bytes.
    package static let longestBuild = 255

    /// The SHA-256 of the image's bytes, 64 hexadecimal digits.
    package var digest: String
    /// The build of the crashed decoders; another build may try again.
    package var build: String
    /// The end of the quarantine, in milliseconds since 1970.
    package var until: Int
    /// The duration of the last quarantine, in milliseconds.
    package var milliseconds: Int

    package init(digest: String, build: String, until: Int, milliseconds: Int) {
        (self.digest, self.build, self.until, self.milliseconds) = (digest, build, until, milliseconds)
    }
}

extension QuarantineRecord: FieldList {
    package static var blank: QuarantineRecord {
        QuarantineRecord(digest: "", build: "", until: 0, milliseconds: 1)
    }

    package mutating func list(_ fields: inout Fields) {
        // Any text of this length is read, because one bad record in a file must not cost the others: the reader leaves
        // it out.
        fields.string("digest", &digest, most: 64)
        fields.string("build", &build, most: Self.longestBuild)
        // Leaves room to add a day without overflow.
        fields.integer("until", &until, in: 0...Int.max / 2)
        fields.integer("milliseconds", &milliseconds, in: 1...Int.max / 2)
    }
}
