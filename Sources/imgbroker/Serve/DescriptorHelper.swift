import LinuxSystem

/// The process that receives descriptors for the broker (`DescriptorReceiver`). Closing them may hold it up for ever.
enum DescriptorHelper {
    /// A byte from the broker.
    enum Order: UInt8 {
        /// Receive one message on the connection that comes with this byte.
        case receive
        /// Keep the connection that comes with this byte.
        case hold
        /// Close what is kept.
        case close
    }

    /// An answer to the broker: eight bytes with its kind and the number of bytes that follow. The descriptor, if any, comes
    /// with the first byte.
    struct Answer {
        enum Kind: UInt32 {
            /// Bytes without a descriptor.
            case bytes
            /// Bytes with a file in memory.
            case memory
            /// Bytes with any other descriptor, which does not come.
            case other
            /// Bytes whose descriptors the kernel dropped.
            case lost
            /// The connection has ended.
            case end
            /// All descriptors of the order are closed.
            case closed
        }

        static let headerLength = 8

        var kind: Kind
        var bytes: ArraySlice<UInt8> = []

        init(_ kind: Kind, _ bytes: ArraySlice<UInt8> = []) {
            self.kind = kind
            self.bytes = bytes
        }

        /// Takes an answer from the beginning of `received`; nil when it is not complete.
        init?(takenFrom received: inout [UInt8]) {
            guard received.count >= Self.headerLength else { return nil }
            func number(at offset: Int) -> UInt32 { received[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) } }
            let count = Int(number(at: 4))
            guard let kind = Kind(rawValue: number(at: 0)), received.count >= Self.headerLength + count else {
                return nil
            }
            self.kind = kind
            bytes = received[Self.headerLength..<Self.headerLength + count]
            received.removeFirst(Self.headerLength + count)
        }

        var encoded: [UInt8] {
            [kind.rawValue, UInt32(bytes.count)].flatMap { number in
                (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * UInt32($0))) }
            } + bytes
        }
    }

    /// The most bytes received at once.
    private static let longestMessage = 1 << 16
    static let longestAnswer = longestMessage + Answer.headerLength

    /// The process's work, until its socket ends.
    static func run(_ words: some Sequence<String>) -> Int32 {
        let control = FileDescriptor(owning: WorkerLauncher.controlDescriptor)
        guard (try? UnixSocket.peerCredentials(of: control)) != nil else { return 2 }
        HelperSandbox.enter(words)
        var held: [FileDescriptor] = []
        return unsafe withUnsafeTemporaryAllocation(byteCount: 1, alignment: 16) { buffer in
            while true {
                guard let received = try? unsafe UnixSocket.receive(into: buffer, from: control),
                    case .bytes(_, let descriptors, _) = received, let order = unsafe Order(rawValue: buffer[0])
                else { return 0 }
                switch order {
                case .receive:
                    guard let connection = descriptors.first, answer(connection, on: control) else { return 1 }
                case .hold:
                    held += descriptors
                    continue
                case .close: held = []
                }
                // All descriptors of the order are closed here, unless that held the process up.
                guard send(Answer(.closed), on: control) else { return 1 }
            }
        }
    }

    /// Receives a message, passes it on, and closes what it has not passed on.
    private static func answer(_ connection: FileDescriptor, on control: FileDescriptor) -> Bool {
        unsafe withUnsafeTemporaryAllocation(byteCount: longestMessage, alignment: 16) { buffer in
            guard let received = try? unsafe UnixSocket.receive(into: buffer, from: connection) else {
                return send(Answer(.end), on: control)
            }
            switch received {
            case .end: return send(Answer(.end), on: control)
            case .wouldBlock: return send(Answer(.bytes), on: control)
            case .bytes(let count, let descriptors, let areLost):
                let bytes = unsafe Array(buffer[..<count])[...]
                if areLost { return send(Answer(.lost, bytes), on: control) }
                guard let first = descriptors.first else { return send(Answer(.bytes, bytes), on: control) }
                if !first.hasSeals { return send(Answer(.other, bytes), on: control) }
                return send(Answer(.memory, bytes), [first], on: control)
            }
        }
    }

    private static func send(
        _ answer: Answer, _ descriptors: [FileDescriptor] = [], on control: FileDescriptor
    ) -> Bool {
        let bytes = answer.encoded
        var sent = 0
        while sent < bytes.count {
            let count = try? unsafe bytes.withUnsafeBytes { (bytes) throws(SystemError) in
                try unsafe UnixSocket.send(
                    UnsafeRawBufferPointer(rebasing: bytes[sent...]), descriptors: sent == 0 ? descriptors : [],
                    on: control)
            }
            guard let count = count ?? nil else { return false }
            sent += count
        }
        return true
    }
}
