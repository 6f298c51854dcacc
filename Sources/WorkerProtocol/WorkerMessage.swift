package import IPCProtocol
package import JSONCoding

/// A message between the broker and one of its workers: one frame with a `type`, and descriptors if its type has them.
package protocol WorkerMessage: Equatable, Sendable {
    /// The message's name on the wire.
    var type: String { get }
    /// The number of descriptors sent with the message.
    var descriptorCount: Int { get }
    /// Whether bytes may come in the message's frame: in place of its first descriptor, if it has any.
    var mayHaveBytes: Bool { get }
    /// One value of each type, from which reading starts.
    static var blanks: [Self] { get }
    /// Names the fields other than `type` and `fds`, to read or to write them.
    mutating func list(_ fields: inout Fields)
}

/// Contents that a frame has in place of a memfd.
package enum SmallContents {
    /// The most bytes of an original or of a record of the shared tier that the process of a tier sends in a frame, and that the broker
    /// keeps without a memfd.
    package static let mostBytes = 64 << 10
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
    package var mayHaveBytes: Bool { false }

    /// The number of descriptors sent with the message, with or without bytes in its frame.
    package func descriptorCount(withBytes hasBytes: Bool) -> Int {
        hasBytes ? max(0, descriptorCount - 1) : descriptorCount
    }

    /// Returns the message as a frame, with `bytes` after its JSON text and a zero, which no JSON text has. To send a small body
    /// in a frame costs less than to make, fill, seal, send and read a memfd.
    ///
    /// - Throws: `Frame.TooLong`.
    package func encoded(with bytes: [UInt8]? = nil) throws(Frame.TooLong) -> [UInt8] {
        let count = descriptorCount(withBytes: bytes != nil)
        return try Frame.encode(followedBy: bytes) { fields in
            fields.constant("type", type)
            if count > 0 { fields.constant("fds", count) }
            var copy = self
            copy.list(&fields)
        }
    }

    /// Parts a frame into the JSON text of its message and the bytes after it; nil without any.
    package static func parts(of frame: ArraySlice<UInt8>) -> (text: ArraySlice<UInt8>, bytes: ArraySlice<UInt8>?) {
        guard let end = frame.firstIndex(of: 0) else { return (frame, nil) }
        return (frame[..<end], frame[(end + 1)...])
    }

    /// Reads a message from the JSON text of its frame.
    ///
    /// - Throws: `BadWorkerMessage`.
    package init(decoding text: ArraySlice<UInt8>) throws(BadWorkerMessage) {
        var fields: Fields
        do {
            fields = try Fields(reading: text)
        } catch {
            throw BadWorkerMessage(description: "no JSON: expected \(error.expected) at \(error.offset)")
        }
        var type = ""
        fields.string("type", &type)
        // By index: the sequence's methods, which are not specialized for the type, allocate memory for each element.
        guard let place = Self.blanks.indices.first(where: { Self.blanks[$0].type == type }) else {
            throw BadWorkerMessage(description: "type is not known")
        }
        var message = Self.blanks[place]
        message.list(&fields)
        if let problem = fields.problem {
            throw BadWorkerMessage(description: "\(problem.field) is not \(problem.expected)")
        }
        self = message
    }
}

extension Fields {
    /// The identifier of a job.
    mutating func job(_ value: inout Int) {
        integer("job", &value, in: 0...Int.max)
    }

    /// The identifiers of jobs.
    mutating func jobs(_ values: inout [Int]) {
        integers("jobs", &values, in: 0...Int.max)
    }
}
