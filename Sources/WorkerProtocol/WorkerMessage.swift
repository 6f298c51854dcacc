internal import IPCProtocol
package import JSONCoding

/// A message between the broker and a worker of its own: one frame with a `type`, and descriptors where it says so.
package protocol WorkerMessage: Equatable, Sendable {
    /// The message's name on the wire.
    var type: String { get }
    /// How many descriptors go with it.
    var descriptorCount: Int { get }
    /// Writes the members other than `type` and `fds`.
    func writeMembers(to writer: inout JSONWriter)
    /// Reads a message of `type` from the text of its frame; nil when something is missing.
    init?(type: String, members: inout JSONReader) throws(JSONReader.MalformedJSON)
}

/// A worker's message that is none: the two ends do not fit together, or one of them is lost.
package struct BadWorkerMessage: Error, CustomStringConvertible {
    /// What is wrong with it.
    package let description: String

    /// A complaint in words.
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
