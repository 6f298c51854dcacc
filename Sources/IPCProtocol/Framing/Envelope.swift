package import JSONCoding

/// The members common to all messages. They are read before the others because members may stand in any order.
package struct Envelope: Equatable, Sendable {
    /// The message's type; nil when it is missing or not a string.
    package private(set) var type: String?
    /// The request's id; nil when it is missing or not an integer from 0 to 2^53 - 1.
    package private(set) var id: Int?
    /// The number of descriptors that come with the message.
    package private(set) var descriptors = 0
    /// The number of bytes of payload that follow the message.
    package private(set) var payload = 0
    /// The invalid one of `fds` and `payload`; it then counts as 0.
    private(set) var problem: JSONReader.FieldProblem?

    /// Reads all of `text`, so that later readers can rely on it being well-formed.
    ///
    /// - Throws: `JSONReader.MalformedJSON`.
    package init(_ text: ArraySlice<UInt8>) throws(JSONReader.MalformedJSON) {
        var reader = JSONReader(text)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "type": type = try reader.string(name)
            case "id": id = try reader.integer(name, in: 0...JSONReader.maximumInteger)
            case "fds": descriptors = try reader.integer(name, in: 0...253) ?? 0
            case "payload": payload = try reader.integer(name, in: 0...JSONReader.maximumInteger) ?? 0
            default: try reader.skip()
            }
        }
        if let found = reader.problem, ["fds", "payload"].contains(found.field) { problem = found }
    }
}
