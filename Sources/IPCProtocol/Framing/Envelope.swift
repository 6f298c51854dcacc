package import JSONCoding

/// The members common to all messages.
package struct Envelope: Equatable, Sendable {
    /// The maximum length of a type, in bytes.
    static let longestType = 255

    /// The message's type; nil when it is missing or not a string of at most `longestType` bytes.
    package private(set) var type: String?
    /// The request's id; nil when it is missing or not an integer from 0 to 2^53 - 1.
    package private(set) var id: Int?
    /// The number of descriptors that come with the message.
    package private(set) var descriptors = 0
    /// The number of bytes of payload that follow the message.
    package private(set) var payload = 0

    /// Reads the members of a message. Of these, only an invalid `fds` or `payload` is noted as a problem, because some
    /// messages have no id.
    package init(_ fields: inout Fields) {
        type = fields.peekString("type", most: Self.longestType)
        id = fields.peekInteger("id", in: 0...JSONReader.maximumInteger)
        fields.integer("fds", &descriptors, in: 0...253, .optional)
        fields.integer("payload", &payload, in: 0...JSONReader.maximumInteger, .optional)
    }
}
