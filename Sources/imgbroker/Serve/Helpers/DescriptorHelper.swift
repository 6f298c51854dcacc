import BrokerCore
import Digests
import LinuxSystem
import Sandbox
import SystemValues

/// The process that receives descriptors for the broker, and reads local files (`DescriptorReceiver`). Its calls on
/// these descriptors may hold it up for ever.
enum DescriptorHelper {
    typealias Order = Message<OrderKind>
    typealias Answer = Message<AnswerKind>

    /// What the broker and the process send each other: 16 bytes with its kind and the number of bytes that follow. The
    /// descriptor, if any, comes with the first byte.
    struct Message<Kind: RawRepresentable<Int>> {
        let kind: Kind
        let bytes: ArraySlice<UInt8>

        init(_ kind: Kind, _ bytes: ArraySlice<UInt8> = []) { (self.kind, self.bytes) = (kind, bytes) }

        init(_ kind: Kind, numbers: [Int]) { self.init(kind, numbers.flatMap(DescriptorHelper.bytes)[...]) }

        /// Takes a message from the beginning of `received`; nil when it is not complete.
        init?(takenFrom received: inout [UInt8]) {
            guard received.count >= headerLength, let kind = Kind(rawValue: number(of: received[..<8])) else {
                return nil
            }
            let count = number(of: received[8..<headerLength])
            guard (0...received.count - headerLength).contains(count) else { return nil }
            self.init(kind, received[headerLength..<headerLength + count])
            received.removeFirst(headerLength + count)
        }

        var encoded: [UInt8] {
            DescriptorHelper.bytes(of: kind.rawValue) + DescriptorHelper.bytes(of: bytes.count) + bytes
        }

        var numbers: [Int] {
            let bytes = Array(bytes)
            return stride(from: 0, to: bytes.count - 7, by: 8).map { number(of: bytes[$0..<$0 + 8]) }
        }
    }

    /// An order of the broker, which names a file by a number.
    enum OrderKind: Int {
        /// Receive messages on the connection that comes with the order, at least one and at most `mostMessages`, and
        /// keep the file of each under the number or a following one.
        case receive
        /// Keep the file that comes with the order under the number.
        case keep
        /// Read the file with the number into the memfd that comes with the order.
        case read
        /// Close the file with the number.
        case release
        /// The same without an answer, because closing it never waits.
        case forget
        /// Keep the connection that comes with the order.
        case hold
        /// Close the connections that are kept.
        case close

        /// Whether a descriptor comes with the order.
        var hasDescriptor: Bool { [.receive, .keep, .read, .hold].contains(self) }
    }

    enum AnswerKind: Int {
        /// The number of messages that follow for one order, if there are several.
        case several
        /// Bytes without a descriptor.
        case bytes
        /// Bytes with a file in memory.
        case memory
        /// Bytes with any other file, which is kept and looked at next.
        case file
        /// The file is regular and can be read: `FileFacts`.
        case examined
        /// The file cannot be used, and is not kept: its number, and that of an error; 0 if it is of another kind.
        case refused
        /// The file was read completely, and the memfd is sealed.
        case read
        /// The file was not read: a `ReadFailure`, and the number of an error.
        case unread
        /// Bytes whose descriptors the kernel dropped.
        case lost
        /// The connection has ended.
        case end
        /// All descriptors of the order are closed.
        case closed
    }

    enum ReadFailure: Int {
        /// It is another one than it was, or was changed meanwhile.
        case changed
        /// The descriptor does not permit it.
        case unreadable
        /// It may succeed later.
        case failed
        /// The memfd has no room.
        case noMemory
        /// The file is not kept.
        case unknown
    }

    /// The time in nanoseconds after a change in which another change may leave a file's times as they are: the kernel
    /// notes them with the precision of its timer interrupt, which is 10 ms at most.
    static let timePrecision = 20_000_000
    /// The same for file systems that note whole seconds, or two, and for those that may.
    static let coarsePrecision = 2_000_000_000

    /// The longest sealed memfd, in bytes, that is known by its digest; longer ones are files like others.
    private static let longestDigested = 256 << 20

    static let mostMessages = 16
    /// The most bytes received at once.
    private static let longestMessage = 1 << 16
    static let longestAnswer = longestMessage + headerLength
    private static let headerLength = 16

    /// The eight bytes of a number, the lowest first.
    private static func bytes(of number: Int) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }

    private static func number(of bytes: ArraySlice<UInt8>) -> Int {
        Int(bitPattern: bytes.reversed().reduce(0) { $0 << 8 | UInt($1) })
    }

    /// The process's work, until its socket ends.
    static func run(_ words: some Sequence<String>) -> Int32 {
        guard let control = HelperSandbox.control else { return 2 }
        HelperSandbox.enter(.files, words)
        var process = HelperProcess(control: control)
        while process.serveNext() {}
        return 0
    }

    /// The helper's own process, in which the calls of files that do not answer may last as long as they like.
    private struct HelperProcess {
        let control: FileDescriptor
        /// Connections that the broker closes now.
        var held: [FileDescriptor] = []
        /// Local files, by the broker's numbers.
        /// The device of one is nil if that is not of a local file system.
        var files: [Int: (file: FileDescriptor, identity: FileIdentity, device: UInt64?)] = [:]
        /// The devices of local file systems of which it keeps files, and how many. Their files are looked at before
        /// the message is passed on, which saves two messages. Without one, another file system might get the number.
        var localDevices: [UInt64: Int] = [:]
        /// Answers that are sent with the next one, and the number of messages among them.
        var pending: [UInt8] = []
        var pendingMessages = 0
        /// Orders that were received, and their descriptors.
        var orders: [UInt8] = []
        var descriptors: [FileDescriptor] = []

        /// Carries out the next order; false at the end.
        mutating func serveNext() -> Bool {
            switch carryOutNext() {
            case .end: false
            case .unanswered: true
            // All descriptors of the order are closed now, unless that held the process up.
            case .done: send(Answer(.closed))
            }
        }

        private enum Outcome { case end, unanswered, done }

        private mutating func carryOutNext() -> Outcome {
            guard let (order, descriptor) = nextOrder() else { return .end }
            let number = order.numbers.first ?? 0
            switch order.kind {
            case .receive:
                guard let descriptor, receiveMessages(from: descriptor, keepingAs: number) else { return .end }
            case .keep:
                guard let descriptor, examine(descriptor, descriptor.rememberedDevice, as: number) else {
                    return .end
                }
            case .read:
                guard let descriptor, read(number, into: descriptor) else { return .end }
            case .release: close(number)
            case .forget:
                close(number)
                return .unanswered
            case .hold:
                if let descriptor { held.append(descriptor) }
                return .unanswered
            case .close: held = []
            }
            return .done
        }

        private mutating func close(_ number: Int) {
            guard let device = files.removeValue(forKey: number)?.device, let count = localDevices[device] else {
                return
            }
            localDevices[device] = count > 1 ? count - 1 : nil
        }

        private mutating func nextOrder() -> (Order, FileDescriptor?)? {
            while true {
                if let order = Order(takenFrom: &orders) {
                    let hasDescriptor = order.kind.hasDescriptor && !descriptors.isEmpty
                    return (order, hasDescriptor ? descriptors.removeFirst() : nil)
                }
                guard let (bytes, descriptors) = UnixSocket.receive(atMost: 512, from: control) else { return nil }
                orders += bytes
                self.descriptors += descriptors
            }
        }

        private enum Reception {
            /// Another message may be received: nothing has waited.
            case more
            /// There is no further message.
            case none
            /// A message whose descriptors may hold this process up was sent; false if that failed.
            case sent(Bool)
        }

        /// Receives messages, passes them on, and keeps their files.
        private mutating func receiveMessages(from connection: FileDescriptor, keepingAs first: Int) -> Bool {
            for message in 0..<mostMessages {
                switch receiveMessage(from: connection, keepingAs: first + message, isFirst: message == 0) {
                case .more: if pending.count >= longestMessage { return true }
                case .none: return true
                case .sent(let isSent): return isSent
                }
            }
            return true
        }

        /// Receives a message, passes it on, and keeps its file. Closes everything else.
        private mutating func receiveMessage(
            from connection: FileDescriptor, keepingAs number: Int, isFirst: Bool
        ) -> Reception {
            var file: FileDescriptor?
            var device: UInt64 = 0
            let reception: Reception = unsafe withUnsafeTemporaryAllocation(byteCount: longestMessage, alignment: 16) {
                buffer in
                let received = try? unsafe UnixSocket.receive(into: buffer, from: connection)
                switch received {
                case .end, nil: return isFirst ? .sent(send(Answer(.end))) : .none
                case .wouldBlock: return isFirst ? .sent(send(Answer(.bytes))) : .none
                case .bytes(let count, let descriptors, let areLost):
                    pendingMessages += 1
                    let bytes = unsafe Array(buffer[..<count])[...]
                    if areLost { return .sent(send(Answer(.lost, bytes))) }
                    guard let first = descriptors.first else {
                        pending += Answer(.bytes, bytes).encoded
                        return .more
                    }
                    if first.hasSeals { return .sent(send(Answer(.memory, bytes), first)) }
                    file = first
                    device = first.rememberedDevice
                    // Before anything that may wait, unless nothing does.
                    if descriptors.count > 1 || localDevices[device] == nil { return .sent(send(Answer(.file, bytes))) }
                    pending += Answer(.file, bytes).encoded
                    return .more
                }
            }
            if case .sent(false) = reception { return reception }
            if let file, !examine(file, device, as: number) { return .sent(false) }
            return reception
        }

        /// Looks at a file of a device, and keeps it if it can be read.
        private mutating func examine(_ file: FileDescriptor, _ device: UInt64, as number: Int) -> Bool {
            guard file.isOpenForReading else { return refuse(number, device) }
            do throws(SystemError) {
                let status = try file.status()
                guard status.isRegular else { return refuse(number, device) }
                let kind = device != 0 && localDevices[device] != nil ? .local : file.fileSystemKind
                let isLocal = device != 0 && kind == .local
                var identity = FileIdentity(status)
                if file.isSealed, identity.size <= longestDigested { identity.digest = try digest(of: file) }
                let age = WallClock.nanoseconds &- identity.changed
                let isRecent =
                    identity.digest == nil
                    && age < (isLocal && !identity.hasCoarseTimes ? timePrecision : coarsePrecision)
                let words = identity.digest?.words
                files[number] = (file, identity, isLocal ? device : nil)
                if isLocal { localDevices[device, default: 0] += 1 }
                pending +=
                    Answer(
                        .examined,
                        numbers: [
                            number, Int(bitPattern: UInt(identity.device)), Int(bitPattern: UInt(identity.inode)),
                            identity.size, identity.modified, identity.changed, isRecent ? 1 : 0,
                            isLocal ? 1 : 0, kind == .user ? 1 : 0,
                        ] + (words.map { words in (0..<4).map { Int(bitPattern: UInt(words[$0])) } } ?? [])
                    ).encoded
                return true
            } catch {
                return refuse(number, device, error.code)
            }
        }

        private func digest(of file: FileDescriptor) throws(SystemError) -> ContentDigest? {
            var hash = SHA256()
            var offset = 0
            var piece = [UInt8](repeating: 0, count: 1 << 18)
            while true {
                var target = piece.mutableSpan
                let count = try unsafe target.withUnsafeMutableBytes { (target) throws(SystemError) in
                    try unsafe file.read(into: target, at: offset)
                }
                if count == 0 { return hash.digest() }
                unsafe piece.withUnsafeBytes { unsafe hash.update(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
                offset += count
            }
        }

        /// Reports that a file cannot be used: at once if closing it may wait.
        private mutating func refuse(_ number: Int, _ device: UInt64, _ code: Int32 = 0) -> Bool {
            let answer = Answer(.refused, numbers: [number, Int(code)])
            if localDevices[device] == nil { return send(answer) }
            pending += answer.encoded
            return true
        }

        /// Reads a file that must be as it was when it was looked at, and still is afterwards.
        private mutating func read(_ number: Int, into memory: FileDescriptor) -> Bool {
            guard let kept = files[number] else { return fail(number, .unknown) }
            let (file, identity) = (kept.file, kept.identity)
            do throws(SystemError) {
                if FileIdentity(try file.status(), identity.digest) != identity { return fail(number, .changed) }
                if try memory.copy(identity.size, from: file, at: 0) != identity.size { return fail(number, .changed) }
                if FileIdentity(try file.status(), identity.digest) != identity { return fail(number, .changed) }
                try memory.seal()
                pending += Answer(.read, numbers: [number]).encoded
                return true
            } catch  where ["pwrite", "fcntl"].contains(error.call) {
                return fail(number, .noMemory, error.code)
            } catch {
                let permanent = [SystemError.invalidArgument, SystemError.badDescriptor, SystemError.isDirectory]
                return fail(number, permanent.contains(error.code) ? .unreadable : .failed, error.code)
            }
        }

        private mutating func fail(_ number: Int, _ failure: ReadFailure, _ code: Int32 = 0) -> Bool {
            send(Answer(.unread, numbers: [number, failure.rawValue, Int(code)]))
        }

        private mutating func send(_ answer: Answer, _ descriptor: FileDescriptor? = nil) -> Bool {
            let count = pendingMessages > 1 ? Answer(.several, numbers: [pendingMessages]).encoded : []
            let bytes = count + pending + answer.encoded
            pending.removeAll(keepingCapacity: true)
            pendingMessages = 0
            var sent = 0
            while sent < bytes.count {
                let descriptors = sent == 0 ? [descriptor].compactMap(\.self) : []
                guard let count = (try? UnixSocket.send(bytes[sent...], descriptors, on: control)) ?? nil else {
                    return false
                }
                sent += count
            }
            return true
        }
    }
}

extension FileIdentity {
    /// Whether its times may be those of a file system that notes whole seconds.
    var hasCoarseTimes: Bool { modified % 1_000_000_000 == 0 && changed % 1_000_000_000 == 0 }

    init(_ status: FileSystem.Status, _ digest: ContentDigest? = nil) {
        self.init(
            device: status.device, inode: status.inode, size: status.size, modified: status.modifiedNanoseconds,
            changed: status.changedNanoseconds, digest: digest)
    }
}
