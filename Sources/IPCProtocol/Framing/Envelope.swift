package import JSONCoding

/// What every message has, whatever its type: read first, as members may stand in any order.
package struct Envelope: Equatable, Sendable {
    /// The message's type; nil when it is missing or no string.
    package private(set) var type: String?
    /// The request's id; nil when it is missing or not an integer from 0 to 2^53 - 1.
    package private(set) var id: Int?
    /// How many descriptors come with the message.
    package private(set) var descriptors = 0
    /// How many bytes of payload follow it.
    package private(set) var payload = 0
    /// Which of `fds` and `payload` is not what it should be; it counts as 0 then.
    private(set) var problem: JSONReader.FieldProblem?

    /// Reads all of `text`, so that whatever follows knows it to be well-formed.
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
