internal import DiskRecords
package import IPCProtocol
package import JSONCoding

/// A message between the broker and one of its workers: one frame with a `type`, packed (`JSONForm`) but for
/// a program's first, and descriptors if its type has them.
package protocol WorkerMessage: Equatable, Sendable {
    /// The message's name on the wire.
    var type: String { get }
    /// The number of descriptors sent with the message; one if bytes may be in its place, unless a type says otherwise.
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
    /// The most bytes of an original or of a record of the shared tier that the process of a tier sends in a frame, and
    /// that the broker keeps without a memfd.
    package static let mostBytes = 64 << 10
}

/// A malformed worker message: the two ends have different versions, or one of them is compromised.
package struct BadWorkerMessage: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}

extension WorkerMessage {
    package var mayHaveBytes: Bool { false }
    package var descriptorCount: Int { mayHaveBytes ? 1 : 0 }

    /// The number of descriptors sent with the message, with or without bytes in its frame.
    package func descriptorCount(withBytes hasBytes: Bool) -> Int {
        hasBytes ? max(0, descriptorCount - 1) : descriptorCount
    }

    /// Appends the message as a frame to other frames, with `bytes` after a zero, if given. To send a small body in a
    /// frame costs less than to make, fill, seal, send and read a memfd.
    ///
    /// - Throws: `Frame.TooLong`; nothing is appended then.
    package func append(to frames: inout [UInt8], with bytes: RawSpan? = nil) throws(Frame.TooLong) {
        let (hasBytes, type) = (bytes != nil, type)
        try Frame.append(to: &frames, Self.isText(type) ? .text : .packed, followedBy: bytes) {
            list(type, withBytes: hasBytes, &$0)
        }
    }

    /// Returns the message as a frame, like `append`.
    package func encoded(with bytes: [UInt8]? = nil) throws(Frame.TooLong) -> [UInt8] {
        var frame: [UInt8] = []
        if let bytes { try unsafe append(to: &frame, with: bytes.span.bytes) } else { try append(to: &frame) }
        return frame
    }

    /// The message as JSON text, for a file.
    package var json: [UInt8] {
        var writer = JSONWriter()
        Fields.write(&writer) { list(type, withBytes: false, &$0) }
        return writer.finish()
    }

    /// Whether messages of a type are text, so that programs of other versions understand them and can say so: a
    /// program's first, and the order to a fork server.
    private static func isText(_ type: String) -> Bool { type == "ready" || type == "formats" || type == "fork" }

    private func list(_ type: String, withBytes hasBytes: Bool, _ fields: inout Fields) {
        fields.constant("type", type)
        let count = descriptorCount(withBytes: hasBytes)
        if count > 0 { fields.constant("fds", count) }
        var copy = self
        copy.list(&fields)
    }

    /// Reads a message from its frame, and the bytes after it; nil without any.
    package static func read(
        _ frame: ArraySlice<UInt8>
    ) throws(BadWorkerMessage) -> (message: Self, bytes: ArraySlice<UInt8>?) {
        // Text has no zero, and a packed message one in the length of its first name.
        if !frame.prefix(6).contains(0) {
            let message = try Self(json: frame)
            if !isText(message.type) { throw BadWorkerMessage(description: "\(message.type) is text") }
            return (message, nil)
        }
        var (fields, rest): (Fields, ArraySlice<UInt8>)
        do {
            rest = frame
            fields = try Fields(packed: frame, rest: &rest)
        } catch {
            throw BadWorkerMessage(description: "no message: expected \(error.expected) at \(error.offset)")
        }
        let message = try Self(&fields)
        guard let separator = rest.first else { return (message, nil) }
        if separator != 0 || !message.mayHaveBytes {
            throw BadWorkerMessage(description: "\(message.type) is followed by bytes")
        }
        return (message, rest.dropFirst())
    }

    package init(json text: ArraySlice<UInt8>) throws(BadWorkerMessage) {
        var fields: Fields
        do {
            fields = try Fields(reading: text)
        } catch {
            throw BadWorkerMessage(description: "no JSON: expected \(error.expected) at \(error.offset)")
        }
        try self.init(&fields)
    }

    private init(_ fields: inout Fields) throws(BadWorkerMessage) {
        var type = ""
        fields.string("type", &type)
        // By index: the methods of collections, which are not specialized for the type, look up metadata and allocate
        // memory.
        let blanks = Self.blanks
        var place = 0
        while place < blanks.count, blanks[place].type != type { place += 1 }
        if place == blanks.count { throw BadWorkerMessage(description: "type is not known") }
        var message = blanks[place]
        message.list(&fields)
        if let problem = fields.problem {
            throw BadWorkerMessage(description: "\(problem.field) is not \(problem.expected)")
        }
        self = message
    }
}

extension Fields {
    mutating func job(_ value: inout Int) {
        integer("job", &value, in: 0...Int.max)
    }

    /// The identifier of a job, in the place of `value`.
    mutating func job(_ value: Int) -> Int { integer("job", value, in: 0...Int.max) }

    /// The identifiers of jobs, in the place of `values`.
    mutating func jobs(_ values: [Int]) -> [Int] {
        value(values) { $0.integers("jobs", &$1, in: 0...Int.max) }
    }

    /// A SHA-256, in the place of `value`.
    mutating func digest(_ name: StaticString, _ value: String) -> String {
        self.value(value) { $0.digest(name, &$1) }
    }
}
