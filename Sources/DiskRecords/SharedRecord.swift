package import HTTPValues
package import JSONCoding

/// The metadata of a record in the shared tier, which several brokers read and write.
package struct SharedRecord: Equatable, Sendable {
    /// What the record has or says of an original.
    package enum Content: Equatable, Sendable {
        /// The original: the SHA-256 of the bytes that follow (64 hexadecimal digits), their number, the origin's
        /// response, and the request fields that the response depends on (`Vary`) in normalized form.
        case original(digest: String, bytes: Int, ResponseRecord, varyKey: String?)
        /// An image encoded again, whose bytes follow; only in signed records.
        case variant(RasterRecord)
        /// The origin answers with this error status.
        case failure(status: Int)
        /// Each broker loads it for itself, because the response must not be shared, or is too long or no image.
        case unshared
    }

    /// The key as 64 hexadecimal digits.
    package var key: String
    package var content: Content
    /// The end of the record's use, in milliseconds since 1970.
    package var expires: Int

    package init(key: String, _ content: Content, expires: Int) {
        (self.key, self.content, self.expires) = (key, content, expires)
    }

    /// The number of bytes that follow the metadata.
    package var bytes: Int {
        switch content {
        case .original(_, let bytes, _, _): bytes
        case .variant(let raster): raster.bytes
        case .failure, .unshared: 0
        }
    }

    /// The largest body that is shared, in bytes.
    package static let largestBody = 8 << 20
    /// The longest time that a record is used, in milliseconds: 30 days.
    package static let longestLifetime = 30 * 86_400_000

    /// Whether the record is that of a key, and of use now.
    package func isUsable(as key: String, unixMs: Int) -> Bool {
        // With a minute for clocks that differ.
        self.key == key && expires > unixMs && expires <= unixMs + Self.longestLifetime + 60_000
    }
}

extension SharedRecord: FieldList {
    package static var blank: SharedRecord { SharedRecord(key: "", .unshared, expires: 0) }

    package mutating func list(_ fields: inout Fields) {
        var (digest, bytes, response, varyKey): (String?, Int?, ResponseRecord?, String?)
        var raster: RasterRecord?
        var status: Int?
        if !fields.isReading {
            switch content {
            case .original(let own, let count, let answer, let vary):
                (digest, bytes, response, varyKey) = (own, count, answer, vary)
            case .variant(let own): raster = own
            case .failure(let code): status = code
            case .unshared: break
            }
        }
        fields.digest("key", &key)
        fields.integer("expires", &expires, in: 0...JSONReader.maximumInteger)
        fields.string("digest", &digest, most: 64)
        fields.integer("bytes", &bytes, in: 1...Self.largestBody)
        fields.object("response", &response)
        fields.string("varyKey", &varyKey, most: ResponseRecord.longestValue)
        fields.object("variant", &raster)
        fields.integer("status", &status, in: 400...599)
        guard fields.isReading else { return }
        switch (digest, bytes, response, raster, status) {
        case (let digest?, let bytes?, let response?, nil, nil):
            if !HexadecimalDigit.isDigest(digest) {
                fields.note("digest", expected: "a SHA-256 of 64 hexadecimal digits in lower case")
            }
            content = .original(digest: digest, bytes: bytes, response, varyKey: varyKey)
        case (nil, nil, nil, let raster?, nil):
            if !(1...Self.largestBody).contains(raster.bytes) {
                fields.note("variant", expected: "of at most \(Self.largestBody) bytes")
            }
            content = .variant(raster)
        case (nil, nil, nil, nil, let status?): content = .failure(status: status)
        case (nil, nil, nil, nil, nil): content = .unshared
        default: fields.note("digest", expected: "present with bytes and response, and neither variant nor status")
        }
    }
}
