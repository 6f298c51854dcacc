internal import Digests
internal import DiskRecords
package import IPCProtocol
package import JSONCoding

/// The state for the next process: by `execve`, or by the descriptor store of the service manager.
package struct KeptState: Equatable, Sendable {
    /// The listening socket and other descriptors, which only a process that takes the broker's place inherits.
    package struct Process: Equatable, Sendable, FieldList {
        package var listener: Int
        package var path: String
        /// The identity of its file; absent if the service manager has made it.
        package var device: Int?
        package var inode: Int?
        /// The control sockets of the process that removes that file.
        package var remover: Int?
        package var cacheDirectory: Int?
        /// The numbers of the buffers in the service manager's descriptor store, and that of the last state there.
        package var stored: [Int] = []
        package var storedState = 0
        /// Sockets and files that the next process closes, because closing them may take as long as others like.
        package var closing: [Int] = []
        /// The connections of departed clients.
        package var departed: [Departed] = []
        /// Processes that may not have exited yet.
        package var children: [Child] = []

        package init(listener: Int, path: String) { (self.listener, self.path) = (listener, path) }

        package static var blank: KeptState.Process { KeptState.Process(listener: 0, path: "") }

        package mutating func list(_ fields: inout Fields) {
            let descriptors = 0...Int(Int32.max)
            fields.integer("listener", &listener, in: descriptors)
            fields.string("path", &path)
            fields.integer("device", &device, in: Int.min...Int.max)
            fields.integer("inode", &inode, in: Int.min...Int.max)
            fields.integer("remover", &remover, in: descriptors)
            fields.integer("cacheDirectory", &cacheDirectory, in: descriptors)
            fields.integers("stored", &stored, in: 1...JSONReader.maximumInteger)
            fields.integer("storedState", &storedState, in: 0...JSONReader.maximumInteger)
            listConnections(&fields)
            fields.objects("children", orNone: &children)
        }

        /// The fields that one frame may not hold.
        fileprivate mutating func listConnections(_ fields: inout Fields) {
            fields.integers("closing", &closing, in: 0...Int(Int32.max), .optional)
            fields.objects("departed", orNone: &departed)
        }

        /// Removes the part of `closing` and `departed` that one frame has, and returns it with the other fields.
        fileprivate mutating func takePart() -> Process {
            var part = self
            part.closing = Array(closing.prefix(KeptState.elementsInOneFrame))
            part.departed = Array(departed.prefix(KeptState.elementsInOneFrame))
            closing.removeFirst(part.closing.count)
            departed.removeFirst(part.departed.count)
            return part
        }
    }

    /// A connection of a departed client that has not received all descriptors.
    package struct Departed: Equatable, Sendable, FieldList {
        package var descriptor: Int
        package var user: UInt32
        /// An upper bound of the descriptors.
        package var unread: Int

        package init(descriptor: Int, user: UInt32, unread: Int) {
            (self.descriptor, self.user, self.unread) = (descriptor, user, unread)
        }

        package static var blank: KeptState.Departed { KeptState.Departed(descriptor: 0, user: 0, unread: 1) }

        package mutating func list(_ fields: inout Fields) {
            fields.integer("descriptor", &descriptor, in: 3...Int(Int32.max))
            var owner: UInt32? = user
            fields.user("user", &owner)
            user = owner ?? 0
            fields.integer("unread", &unread, in: 1...Int(Int32.max))
        }
    }

    /// A process that the next one waits for, because it is its child, too.
    package struct Child: Equatable, Sendable, FieldList {
        package var pid: Int
        /// The user whose descriptors hold it up; nil for others.
        package var user: UInt32?

        package init(pid: Int, user: UInt32? = nil) { (self.pid, self.user) = (pid, user) }

        package static var blank: KeptState.Child { KeptState.Child(pid: 1) }

        package mutating func list(_ fields: inout Fields) {
            fields.integer("pid", &pid, in: 1...Int(Int32.max))
            fields.user("user", &user)
        }
    }

    package var lastBuffer = 0
    package var lastSegment = 0
    package var segments: [KeptSegment] = []
    /// Whether new loads wait for `resume`.
    package var isSuspended = false
    package var process: Process?
    package var contents: [KeptContent] = []
    package var clients: [KeptClient] = []

    package init() {}
}

/// Why bytes are not a state, in words for the log.
package enum StateRefusal: String, Error, CustomStringConvertible, Sendable {
    case noState = "it does not end like a state"
    case otherVersion = "it has another version of the format"
    /// The bytes are not those that the footer was made for.
    case damaged = "its digest is wrong"
    /// The bytes are intact, and make no sense.
    case unreadable = "it has a part that is not understood"

    package var description: String { rawValue }
}

/// The bytes of a state:
///
///     frames    as on the wire: a length and a JSON object, some followed by raw bytes, which "payload" counts
///     footer    96 bytes: the SHA-256 of the frames as 64 hexadecimal digits, their length and the version as 16 and 8
///               hexadecimal digits, and the 8 characters of `magic`
extension KeptState {
    static let magic = "imgstate"
    static let version = 1
    static let footerLength = 96
    private static let elementsInOneFrame = 4096

    /// Returns the bytes, with the number of contents that no frame can hold, which are left out.
    ///
    /// - Throws: `Frame.TooLong` if no frame can hold another part.
    package func encoded() throws(Frame.TooLong) -> (bytes: [UInt8], omitted: Int) {
        var bytes: [UInt8] = []
        var omitted = 0
        func add(_ type: String, payload: Int = 0, _ list: (inout Fields) -> Void) throws(Frame.TooLong) {
            let frame = try Frame.encode { fields in
                fields.constant("type", type)
                list(&fields)
                if payload > 0 { fields.constant("payload", payload) }
            }
            bytes += frame
        }
        // The first frame has a part of the connections, which is usually all, so that earlier programs read it, too.
        var (first, rest) = (self, process)
        first.process = rest?.takePart()
        try add("state") { first.list(&$0) }
        while var part = rest?.takePart(), !(part.closing.isEmpty && part.departed.isEmpty) {
            try add("process") { part.listConnections(&$0) }
        }
        for var content in contents {
            let payload = content.buffers.reduce(0) { $0 + $1.contents.count }
            if (try? add("content", payload: payload, { content.list(&$0) })) != nil {
                for buffer in content.buffers { bytes += buffer.contents }
            } else {
                omitted += 1
            }
        }
        for var client in clients {
            try add("client", payload: client.input.count) { client.list(&$0) }
            bytes += client.input
            for start in stride(from: 0, to: client.holds.count, by: Self.elementsInOneFrame) {
                var part = Array(client.holds[start..<min(start + Self.elementsInOneFrame, client.holds.count)])
                try add("holds") { $0.objects("holds", &part) }
            }
            for var output in client.output {
                try add("output", payload: output.bytes.count) { output.list(&$0) }
                bytes += output.bytes
            }
        }
        let digest = SHA256.hexadecimalDigest(of: bytes)
        let numbers = Self.digits(bytes.count, 16) + Self.digits(Self.version, 8)
        bytes += Array((digest + numbers + Self.magic).utf8)
        return (bytes, omitted)
    }

    /// Reads a state.
    ///
    /// - Throws: `StateRefusal`.
    package init(decoding bytes: [UInt8]) throws(StateRefusal) {
        guard bytes.count >= Self.footerLength, bytes.suffix(8).elementsEqual(Self.magic.utf8) else { throw .noState }
        let footer = bytes.suffix(Self.footerLength)
        let start = footer.startIndex
        guard footer[(start + 80)..<(start + 88)].elementsEqual(Self.digits(Self.version, 8).utf8) else {
            throw .otherVersion
        }
        let body = bytes[..<start]
        guard footer[(start + 64)..<(start + 80)].elementsEqual(Self.digits(body.count, 16).utf8),
            footer[start..<(start + 64)].elementsEqual(SHA256.hexadecimalDigest(of: body).utf8)
        else { throw .damaged }
        try self.init(frames: body)
    }

    /// Reads the part before the footer.
    init(frames: ArraySlice<UInt8>) throws(StateRefusal) {
        self.init()
        var decoder = FrameDecoder()
        decoder.append(frames)
        var isFirst = true
        while true {
            let frame: ArraySlice<UInt8>?
            do { frame = try decoder.next() } catch { throw .unreadable }
            guard let frame else { break }
            guard var fields = try? Fields(reading: frame) else { throw .unreadable }
            let envelope = Envelope(&fields)
            let payload = decoder.takePayload(upTo: envelope.payload)
            guard payload.count == envelope.payload, isFirst == (envelope.type == "state") else { throw .unreadable }
            isFirst = false
            try take(envelope.type ?? "", &fields, payload)
            if fields.problem != nil { throw .unreadable }
        }
        if isFirst || decoder.bufferedBytes > 0 { throw .unreadable }
    }

    private mutating func take(
        _ type: String, _ fields: inout Fields, _ payload: ArraySlice<UInt8>
    ) throws(StateRefusal) {
        switch type {
        case "state": list(&fields)
        case "process":
            guard process != nil else { throw .unreadable }
            var part = Process.blank
            part.listConnections(&fields)
            process?.closing += part.closing
            process?.departed += part.departed
        case "content":
            var content = KeptContent.blank
            content.list(&fields)
            var rest = payload
            for index in content.buffers.indices where content.buffers[index].hasContents {
                let count = content.buffers[index].bytes
                guard count <= rest.count else { throw .unreadable }
                content.buffers[index].contents = Array(rest.prefix(count))
                rest = rest.dropFirst(count)
            }
            guard rest.isEmpty else { throw .unreadable }
            contents.append(content)
        case "client":
            var client = KeptClient.blank
            client.list(&fields)
            client.input = Array(payload)
            clients.append(client)
        case "holds":
            guard let last = clients.indices.last else { throw .unreadable }
            var holds: [KeptClient.Hold] = []
            fields.objects("holds", &holds)
            clients[last].holds += holds
        case "output":
            guard let last = clients.indices.last else { throw .unreadable }
            var output = KeptClient.Output.blank
            output.list(&fields)
            output.bytes = Array(payload)
            clients[last].output.append(output)
        default: throw .unreadable
        }
    }

    private mutating func list(_ fields: inout Fields) {
        fields.integer("lastBuffer", &lastBuffer, in: 0...JSONReader.maximumInteger)
        fields.integer("lastSegment", &lastSegment, in: 0...Int(UInt32.max), omitting: 0)
        fields.objects("segments", orNone: &segments)
        fields.flag("isSuspended", &isSuspended)
        fields.object("process", &process)
    }

    private static func digits(_ number: Int, _ count: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: max(0, count - digits.count)) + digits
    }
}
