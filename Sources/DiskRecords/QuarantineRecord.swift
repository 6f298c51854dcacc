package import JSONCoding

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
        // Any text of this length is read, because one bad record in a file must not cost the others: the reader leaves it out.
        fields.string("digest", &digest, most: 64)
        fields.string("build", &build, most: Self.longestBuild)
        // Leaves room to add a day without overflow.
        fields.integer("until", &until, in: 0...Int.max / 2)
        fields.integer("milliseconds", &milliseconds, in: 1...Int.max / 2)
    }
}
