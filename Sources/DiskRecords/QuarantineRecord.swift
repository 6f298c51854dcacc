package import JSONCoding

/// An image that has crashed decoders, recorded across restarts of the broker.
package struct QuarantineRecord: Equatable, Sendable {
    /// The SHA-256 of the image's bytes, 64 hexadecimal digits.
    package var digest: String
    /// The build of the crashed decoders; another build may try again.
    package var build: String
    /// The end of the quarantine, in milliseconds since 1970.
    package var until: Int
    /// The duration of the last quarantine, in milliseconds.
    package var milliseconds: Int

    /// Creates a record.
    package init(digest: String, build: String, until: Int, milliseconds: Int) {
        self.digest = digest
        self.build = build
        self.until = until
        self.milliseconds = milliseconds
    }

    /// Writes the members of the record's object.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("digest", digest)
        writer.member("build", build)
        writer.member("until", until)
        writer.member("milliseconds", milliseconds)
    }

    /// Reads a record from an object in the array `field`; nil, and a note, when something is missing.
    package init?(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        var (digest, build, until, milliseconds): (String?, String?, Int?, Int?)
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "digest": digest = try reader.string(name)
            case "build": build = try reader.string(name)
            // Leaves room to add a day without overflow.
            case "until": until = try reader.integer(name, in: 0...Int.max / 2)
            case "milliseconds": milliseconds = try reader.integer(name, in: 1...Int.max / 2)
            default: try reader.skip()
            }
        }
        guard let digest, digest.utf8.count == 64, let build, let until, let milliseconds else {
            reader.note(field, expected: "complete records")
            return nil
        }
        self.init(digest: digest, build: build, until: until, milliseconds: milliseconds)
    }
}
