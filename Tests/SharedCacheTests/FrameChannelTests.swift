import Glibc
import IPCProtocol
import IPCTransport
import JSONCoding
import LinuxSystem
import SharedCache
import SystemValues
import TestSupport
import Testing

/// Frames, descriptors and payloads over a real socket.
@Suite(.timeLimit(.minutes(10))) struct FrameChannelTests {
    private let here: FrameChannel
    private let there: FrameChannel

    init() throws {
        let (ours, theirs) = try UnixSocket.pair()
        try ours.setNonBlocking()
        try theirs.setNonBlocking()
        (here, there) = (FrameChannel(socket: ours), FrameChannel(socket: theirs))
    }

    private func frame(_ number: Int, padding: Int = 0) -> [UInt8] {
        let frame = try? Frame.encode {
            $0.constant("n", number)
            $0.constant("p", String(repeating: "x", count: padding))
        }
        return frame ?? []
    }

    private func shrinkBuffers() {
        for channel in [here, there] {
            for option in [SO_SNDBUF, SO_RCVBUF] {
                var size: Int32 = 1
                unsafe setsockopt(channel.socket.raw, SOL_SOCKET, option, &size, socklen_t(MemoryLayout<Int32>.size))
            }
        }
    }

    /// Transfers everything from here to there, and calls `take` with each frame as it arrives.
    private func pump(_ take: ([UInt8]) throws -> Void) throws {
        try eventually("all is sent") {
            let isEmpty = try here.flush()
            while try there.fill() == .received { while let text = try there.nextFrame() { try take(Array(text)) } }
            return isEmpty
        }
        while let text = try there.nextFrame() { try take(Array(text)) }
    }

    @Test(arguments: [false, true]) func descriptorsGoWithTheirFrames(_ isTight: Bool) throws {
        if isTight { shrinkBuffers() }
        // None, one and several, in an order that exposes mistakes.
        let counts = [0, 1, 3, 0, 0, 2, 1, 1, 0, 5, 1, 0]
        var number = 0
        for (index, count) in counts.enumerated() {
            let files = try (0..<count).map { _ in
                number += 1
                return try memoryFile([UInt8(number)])
            }
            here.enqueue(frame(index, padding: isTight ? 3000 : index), descriptors: files)
        }
        var (came, expected) = (0, 0)
        try pump { _ in
            let files = try #require(there.takeDescriptors(counts[came]))
            for file in files {
                expected += 1
                #expect(try contents(of: file) == [UInt8(expected)])
            }
            came += 1
        }
        #expect(came == counts.count)
        #expect(expected == number)
        #expect(there.takeDescriptors(1) == nil)
        #expect(here.queuedBytes == 0)
        #expect(!here.hasOutgoing)
    }

    @Test func `frames that are appended arrive in their order, also in the memory of sent ones`() throws {
        here.keptCapacity = 1 << 20
        for round in 0..<3 {
            let expected = (0..<40).map { frame(100 * round + $0, padding: 5000 * ($0 % 3)) }
            for (number, frame) in expected.enumerated() {
                if number % 2 == 0 {
                    here.enqueue { $0 += frame }
                } else {
                    here.enqueue(frame)
                }
            }
            #expect(here.queuedBytes == expected.reduce(0) { $0 + $1.count })
            var received: [[UInt8]] = []
            try pump { received.append($0) }
            #expect(received == expected.map { Array($0.dropFirst(Frame.headerLength)) })
            #expect(here.queuedBytes == 0)
        }
    }

    @Test func joinedDescriptorsGoWithTheirFrames() throws {
        here.joinsDescriptors = true
        let counts = [1, 0, 2, 1, 0, 3]
        for (number, count) in counts.enumerated() {
            here.enqueue(frame(number), descriptors: try (0..<count).map { try memoryFile([UInt8(10 * number + $0)]) })
        }
        try here.flush()
        #expect(try there.fill() == .received)
        // One message has brought them all.
        for (number, count) in counts.enumerated() {
            #expect(try there.nextFrame().map(Array.init) == Array(frame(number).dropFirst(4)))
            let files = try #require(there.takeDescriptors(count))
            #expect(try files.map { try contents(of: $0) } == (0..<count).map { [UInt8(10 * number + $0)] })
        }
        #expect(try there.nextFrame() == nil)
    }

    @Test func partialWrites() throws {
        shrinkBuffers()
        let frames = (0..<20).map { frame($0, padding: 20_000 + $0) }
        for frame in frames { here.enqueue(frame) }
        #expect(here.queuedBytes == frames.reduce(0) { $0 + $1.count })
        #expect(try here.flush() == false)
        #expect(here.queuedBytes > 0)
        var came: [[UInt8]] = []
        try pump { came.append($0) }
        #expect(came == frames.map { Array($0.dropFirst(4)) })
    }

    @Test func payloadsOfFiles() throws {
        shrinkBuffers()
        let sizes = [0, 1, 100_000, 3_000_000]
        let contents = sizes.enumerated().map { index, size in
            (0..<size).map { UInt8(truncatingIfNeeded: $0 &* (index + 3)) }
        }
        for (index, bytes) in contents.enumerated() {
            let file = try memoryFile(bytes + [0xEE, 0xEE])
            here.enqueue(frame(index), payload: .init(file: file, count: bytes.count, name: 100 + index))
        }
        here.enqueue(frame(9))
        #expect(here.queuedBytes < 1000)
        var received: [UInt8] = []
        try eventually("all is sent") {
            let isEmpty = try here.flush()
            received += try drain()
            return isEmpty
        }
        received += try drain()
        let expected = contents.enumerated().flatMap { frame($0) + $1 } + frame(9)
        #expect(received == expected)
        #expect(here.takeSentPayloads() == [100, 101, 102, 103])
        #expect(here.takeSentPayloads() == [])
    }

    private func drain() throws -> [UInt8] {
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = unsafe recv(there.socket.raw, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            if count <= 0 { return all }
            all += buffer.prefix(count)
        }
    }

    @Test func `a server with several sockets bounds the bytes of one call; the rest follows with the next`() throws {
        let file = try memoryFile([UInt8](repeating: 7, count: 10_000))
        here.enqueue(frame(1), payload: .init(file: file, count: 10_000, name: 1))
        #expect(here.queuedPayloads == 1)
        var calls = 0
        func flush() throws -> Bool { try here.flush(payloadBytes: 4000) }
        while try !flush() { calls += 1 }
        #expect(calls == 2)
        #expect(here.queuedPayloads == 0)
    }

    @Test func payloadsAreSteppedOverOrTaken() throws {
        let file = try memoryFile([UInt8](repeating: 5, count: 70_000))
        here.enqueue(frame(1), payload: .init(file: file, count: 70_000, name: 1))
        here.enqueue(frame(2), payload: .init(file: file, count: 10, name: 2))
        here.enqueue(frame(3))
        _ = try here.flush()
        #expect(try there.fill() == .received)
        #expect(try there.nextFrame() != nil)
        there.skipPayload(70_000)
        #expect(there.isInsideFrame)
        var second: [UInt8]?
        try eventually("the second frame") {
            _ = try there.fill()
            second = try there.nextFrame().map { Array($0) }
            return second != nil
        }
        #expect(second == Array(frame(2).dropFirst(4)))
        var payload: [UInt8] = []
        try eventually("the second payload") {
            payload += there.takePayload(upTo: 10 - payload.count)
            if payload.count < 10 { _ = try there.fill() }
            return payload.count == 10
        }
        #expect(payload == [UInt8](repeating: 5, count: 10))
        #expect(try there.nextFrame().map { Array($0) } == Array(frame(3).dropFirst(4)))
        #expect(!there.isInsideFrame)
    }

    @Test func `peeked frames are delivered like received ones, and stay in the socket until they are taken`() throws {
        for number in 0..<3 { here.enqueue(frame(number)) }
        #expect(try here.flush())
        let unread = UnixSocket.messagesUnread(on: here.socket)
        #expect(try there.fillPeeking() == .received)
        for number in 0..<3 { #expect(try there.nextFrame() == frame(number).dropFirst(4)) }
        #expect(try there.nextFrame() == nil)
        #expect(UnixSocket.messagesUnread(on: here.socket) == unread)
        // Frames that arrive meanwhile are not taken with it.
        here.enqueue(frame(3))
        #expect(try here.flush())
        try there.receivePeeked()
        #expect(UnixSocket.messagesUnread(on: here.socket) == 1)
        #expect(try there.fill() == .received)
        #expect(try there.nextFrame() == frame(3).dropFirst(4))
        #expect(UnixSocket.messagesUnread(on: here.socket) == 0)
        #expect(try there.fillPeeking() == .wouldBlock)
        here.endSending()
        #expect(try there.fillPeeking() == .end)
    }

    @Test func peekedFramesInPieces() throws {
        let frames = frame(1) + frame(2)
        var came = 0
        for byte in frames {
            _ = unsafe try withUnsafeBytes(of: byte) { unsafe try UnixSocket.send($0, on: here.socket) }
            #expect(try there.fillPeeking() == .received)
            while let text = try there.nextFrame() {
                came += 1
                #expect(text == frame(came).dropFirst(4))
            }
        }
        #expect(came == 2)
    }

    /// Short and long frames, some with descriptors, in pieces of any size: both ways of filling deliver the same,
    /// alternating and alone.
    @Test(arguments: 0..<20, [false, true]) func peekingChangesNothing(_ seed: UInt64, isAlone: Bool) throws {
        var random = SplitMix64(state: seed)
        var expected: [(text: [UInt8], descriptor: UInt8?)] = []
        var (came, rounds) = (0, 0)
        while came < 60 {
            rounds += 1
            try #require(rounds < 10_000)
            // A few at a time: more than that is not peeked but received.
            for number in expected.count..<min(60, expected.count + Int.random(in: 0...2, using: &random)) {
                let lengths = [0, 10, 10, 900, 3000, 4080, 9000, number % 20 == 0 ? 70_000 : 100]
                let frame = frame(number, padding: lengths.randomElement(using: &random)!)
                let descriptor: UInt8? = Int.random(in: 0..<4, using: &random) == 0 ? UInt8(number) : nil
                here.enqueue(frame, descriptors: try descriptor.map { [try memoryFile([$0])] } ?? [])
                expected.append((Array(frame.dropFirst(4)), descriptor))
            }
            _ = try here.flush()
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                _ = try !isAlone && Bool.random(using: &random) ? there.fill() : there.fillPeeking()
                while let text = try there.nextFrame() {
                    let (wanted, descriptor) = try #require(came < expected.count ? expected[came] : nil)
                    try #require(text.elementsEqual(wanted))
                    if let descriptor {
                        #expect(try there.takeDescriptors(1).map { try contents(of: $0[0]) } == [descriptor])
                    }
                    came += 1
                }
                if Bool.random(using: &random) { try there.receivePeeked() }
            }
        }
        #expect(there.takeDescriptors(1) == nil)
    }

    @Test func writingToAClosedSocketIsAnErrorAndNoSignal() throws {
        var pair: (FileDescriptor, FileDescriptor)? = try UnixSocket.pair()
        let channel = FrameChannel(socket: try #require(pair).0)
        pair = nil
        // A process that another test has just started has the socket, too, until it closes it.
        try eventually("the other end is closed") { try channel.fill() == .end }
        channel.enqueue(frame(1))
        #expect(failure { _ = try channel.flush() } == EPIPE)
    }

    /// A peer that does not receive gets no more descriptors after a while, and frames keep their order.
    @Test func descriptorsWaitForTheirReceiver() throws {
        here.maximumUnread = 4
        for number in 0..<10 { here.enqueue(frame(number), descriptors: [try memoryFile([UInt8(number)])]) }
        here.enqueue(frame(10))
        for _ in 0..<3 {
            #expect(try here.flush() == false)
            #expect(here.queuedDescriptors == 6)
            // The socket has room for bytes, so there is no event to wait for.
            #expect(here.isStalled)
            #expect(here.countUnreadDescriptors() == 4)
        }
        var came = 0
        try pump { text in
            #expect(text == Array(frame(came).dropFirst(4)))
            if came < 10 {
                let file = try #require(there.takeDescriptors(1)?.first)
                #expect(try contents(of: file) == [UInt8(came)])
            }
            came += 1
        }
        #expect(came == 11)
        #expect(here.queuedDescriptors == 0)
        #expect(here.countUnreadDescriptors() == 0)
        #expect(!here.isStalled)
    }

    @Test func badLengths() throws {
        for length: [UInt8] in [[0, 0, 0, 0], [0, 16, 0, 1], [255, 255, 255, 255]] {
            let (ours, theirs) = try UnixSocket.pair()
            let channel = FrameChannel(socket: ours)
            _ = unsafe try length.withUnsafeBytes { unsafe try UnixSocket.send($0, on: theirs) }
            #expect(try channel.fill() == .received)
            #expect(throws: FrameDecoder.BadLength.self) { try channel.nextFrame() }
        }
    }

    @Test func `more descriptors than fit into one message are rejected, not split`() throws {
        let file = try memoryFile([1])
        here.enqueue(frame(1), descriptors: Array(repeating: file, count: 253))
        #expect(try here.flush())
        #expect(try there.fill() == .received)
        #expect(there.takeDescriptors(253)?.count == 253)
        here.enqueue(frame(1), descriptors: Array(repeating: file, count: 254))
        #expect(failure { _ = try here.flush() } == EINVAL)
    }

    /// When this process can open no more descriptors, the kernel drops them. That is reported, no other descriptor
    /// takes their place, and the stream continues.
    @Test func lostDescriptors() async throws {
        await #expect(processExitsWith: .success) {
            let (ours, theirs) = try UnixSocket.pair()
            let file = try WritableBuffer(name: "test").descriptor
            let bytes: [UInt8] = [1, 2, 3]
            _ = unsafe try bytes.withUnsafeBytes {
                unsafe try UnixSocket.send($0, descriptors: Array(repeating: file, count: 8), on: ours)
            }
            // Room for two more: all free numbers are taken, and two are released.
            var taken = takeAllDescriptors(asCopiesOf: file)
            guard taken.count > 2 else { exit(3) }
            taken.removeLast(2)
            let received = unsafe try withUnsafeTemporaryAllocation(byteCount: 64, alignment: 16) {
                unsafe try UnixSocket.receive(into: $0, from: theirs)
            }
            guard case .bytes(3, let came, true) = received, came.count == 2 else { exit(1) }
            guard came.allSatisfy({ $0.raw > 2 && (try? $0.size()) == 0 }) else { exit(2) }
            withExtendedLifetime(taken) {}
        }
    }
}

/// Sockets with a name.
struct ListeningTests {
    @Test func pathsThatDoNotFit() throws {
        let path = "/tmp/" + String(repeating: "x", count: 200)
        #expect(failure { _ = try UnixSocket.listen(at: path, mode: 0o600) } == ENAMETOOLONG)
        #expect(failure { _ = try UnixSocket.connect(to: path) } == ENAMETOOLONG)
    }

    @Test func modeStaleAndLive() throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("s")
        func connecting() -> Int32 { failure { _ = try UnixSocket.connect(to: path) } }
        #expect(connecting() == ENOENT)
        do {
            let listener = try UnixSocket.listen(at: path, mode: 0o640)
            #expect(try UnixSocket.accept(from: listener) == nil)
            #expect(connecting() == 0)
            let client = try UnixSocket.connect(to: path)
            _ = try UnixSocket.accept(from: listener)
            let peer = try UnixSocket.peerCredentials(of: client)
            #expect(peer.pid == getpid())
            #expect(peer.uid == getuid())
            var status = stat()
            unsafe lstat(path, &status)
            #expect(status.st_mode & 0o777 == 0o640)
            #expect(UnixSocket.identity(of: path)?.isSocket == true)
            #expect(failure { _ = try UnixSocket.listen(at: path, mode: 0o600) } == EADDRINUSE)
        }
        try eventually("no process listens, a started one included") { connecting() == ECONNREFUSED }
        try FileDescriptor.create(at: directory.file("file")).truncate(to: 1)
        #expect(UnixSocket.identity(of: directory.file("file"))?.isSocket == false)
        #expect(UnixSocket.identity(of: directory.file("none")) == nil)
    }

    @Test func `the mode of files that other threads create meanwhile stays as it is`() async throws {
        let directory = try TemporaryDirectory()
        let before = try currentMask()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    for number in 0..<500 {
                        let path = directory.file("\(thread)-\(number)")
                        _ = try UnixSocket.listen(at: path, mode: 0o600)
                        #expect(try currentMask() == before)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try currentMask() == before)
    }

    /// The mode bits that this process removes from its new files, as text.
    private func currentMask() throws -> String {
        let status = try FileDescriptor.open(readingAt: "/proc/self/status").readToEnd()
        return try #require(status.split(separator: "\n").first { $0.hasPrefix("Umask:") }.map(String.init))
    }

    @Test func `one process at a time gets the lock on a folder, also within a process`() throws {
        let directory = try TemporaryDirectory()
        var first: FileDescriptor? = try UnixSocket.lock(directory: directory.path, milliseconds: 0)
        let other = try FileDescriptor.open(readingAt: directory.path)
        #expect(flock(other.raw, LOCK_EX | LOCK_NB) == -1)
        #expect(first != nil)
        #expect(try UnixSocket.lock(directory: directory.path, milliseconds: 30) == nil)
        first = nil
        try eventually("no process has the lock, a started one included") {
            flock(other.raw, LOCK_EX | LOCK_NB) == 0
        }
    }
}
