internal import IPCProtocol
package import JSONCoding

/// A message between the broker and one of its workers: one frame with a `type`, and descriptors if its type has them.
package protocol WorkerMessage: Equatable, Sendable {
    /// The message's name on the wire.
    var type: String { get }
    /// The number of descriptors sent with the message.
    var descriptorCount: Int { get }
    /// Writes the members other than `type` and `fds`.
    func writeMembers(to writer: inout JSONWriter)
    /// Reads a message of `type` from the text of its frame; nil when a required member is missing.
    init?(type: String, members: inout JSONReader) throws(JSONReader.MalformedJSON)
}

/// A malformed worker message: the two ends have different versions, or one of them is compromised.
package struct BadWorkerMessage: Error, CustomStringConvertible {
    /// The fault.
    package let description: String

    /// Creates an error with a description.
    package init(description: String) {
        self.description = description
    }
}

extension WorkerMessage {
    /// The message as a frame.
    package func encoded() -> [UInt8] {
        Frame.encode {
            $0.member("type", type)
            if descriptorCount > 0 { $0.member("fds", descriptorCount) }
            writeMembers(to: &$0)
        }
    }

    /// Reads a message from the JSON text of its frame.
    ///
    /// - Throws: `BadWorkerMessage`.
    package init(decoding text: ArraySlice<UInt8>) throws(BadWorkerMessage) {
        let message: Self?
        var reader = JSONReader(text)
        do {
            let envelope = try Envelope(text)
            message = try envelope.type.flatMap { (type) throws(JSONReader.MalformedJSON) in
                try Self(type: type, members: &reader)
            }
        } catch {
            throw BadWorkerMessage(description: "no JSON: expected \(error.expected) at \(error.offset)")
        }
        if let problem = reader.problem {
            throw BadWorkerMessage(description: "\(problem.field) is not \(problem.expected)")
        }
        guard let message else { throw BadWorkerMessage(description: "something is missing") }
        self = message
    }
}
