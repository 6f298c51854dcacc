internal import Glibc
package import IPCProtocol
package import LinuxSystem

/// One end of a stream socket that carries frames, their descriptors and their payloads.
///
/// Calls block or not as the socket is set. One thread uses a channel at a time.
package final class FrameChannel {
    /// The result of one `fill`.
    package enum Fill: Equatable {
        /// Bytes were received; frames may be complete.
        case received
        /// No bytes are available now.
        case wouldBlock
        /// The peer has closed the connection.
        case end
        /// The next bytes come with descriptors, which this channel does not receive; `take` takes them.
        case hasDescriptors
    }

    /// The treatment of descriptors that come with received bytes.
    package enum Reception {
        /// They are received, and closed as any other.
        case received
        /// They are received, and closed by a function.
        case disposed(@Sendable (Int32) -> Void)
        /// They are left in the socket, together with their bytes.
        case left
    }

    /// A descriptor that came with received bytes.
    package enum Arrival {
        case descriptor(FileDescriptor)
        /// The kernel dropped it, because the receiver may open no more.
        case lost
        /// Another process has it.
        case kept(KeptDescriptor)
    }

    /// Bytes of a file that follow a frame, sent without passing through this process.
    package struct FilePayload {
        package let file: FileDescriptor
        /// The position of the first byte.
        package let offset: Int
        package let count: Int
        /// The name of the payload in `takeSentPayloads`.
        package let name: Int

        package init(file: FileDescriptor, offset: Int = 0, count: Int, name: Int) {
            self.file = file
            self.offset = offset
            self.count = count
            self.name = name
        }
    }

    /// A buffer for received bytes before they are decoded into frames. The channels of one thread can share it.
    @safe
    package final class ReceiveBuffer {
        fileprivate let bytes: UnsafeMutableRawBufferPointer

        private static let size = 1 << 16

        /// Creates a buffer for the bytes of one `fill`. Only pages that bytes were received into take memory. It is
        /// not of the heap: when a warm-up ends, others would be given its untouched pages instead of those of earlier
        /// jobs.
        package init() {
            let memory = unsafe mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
            guard let memory = unsafe memory, unsafe memory != MAP_FAILED else { fatalError("out of memory") }
            unsafe bytes = UnsafeMutableRawBufferPointer(start: memory, count: Self.size)
        }

        deinit { unsafe munmap(bytes.baseAddress, bytes.count) }
    }

    /// The socket itself, for an event loop to watch.
    package let socket: FileDescriptor

    private let receiveBuffer: ReceiveBuffer
    /// The number of bytes that the decoder has and that are still in the socket.
    private var peeked = 0
    private var decoder = FrameDecoder()
    /// The received descriptors that were not taken.
    private var descriptors: [Arrival] = []
    private let reception: Reception
    /// An upper bound of the descriptors that the peer has not received.
    private var unreadDescriptors = 0
    private var outgoing: [Outgoing] = []
    private var sentPayloads: [Int] = []
    private var spareStorage: [UInt8] = []
    private var payloadBudget = 0

    /// The bytes in the frame of the worker message last taken; nil without any.
    package internal(set) var frameBytes: [UInt8]?

    /// The number of queued bytes of frames, without payloads.
    package private(set) var queuedBytes = 0

    /// The number of bytes of frames and payloads that the socket has accepted, which wraps around.
    package private(set) var sentBytes = 0

    package private(set) var queuedDescriptors = 0

    /// The number of payloads that are not sent completely.
    package private(set) var queuedPayloads = 0

    /// Whether a queued descriptor waits until the peer has received others, although the socket is writable. No event
    /// reports that, so `flush` must be called again after some time.
    package private(set) var isStalled = false
    /// The maximum number of descriptors that the peer has not received. The kernel's limit is for all channels of a
    /// user together, so a peer that does not receive would block the others.
    package var maximumUnread = Int.max

    /// The maximum capacity of memory that is kept for later frames, in bytes.
    package var keptCapacity = 4096

    /// Whether frames with descriptors are joined, so that the peer receives several frames' descriptors at once. Not
    /// for a channel with `maximumUnread`, which is counted by messages.
    package var joinsDescriptors = false

    private struct Outgoing {
        var bytes: [UInt8]
        var sent = 0
        var descriptors: [FileDescriptor]
        var payload: FilePayload?
        var payloadSent = 0
    }

    /// The unsent part of a frame.
    package struct Unsent {
        package var bytes: [UInt8]
        /// The descriptors that go with its first byte.
        package var descriptors: [FileDescriptor]
        /// The bytes that follow it.
        package var payload: FilePayload?
    }

    /// Creates a channel over `socket`.
    ///
    /// - Parameter descriptors: what happens to received descriptors.
    package init(
        socket: FileDescriptor, receivingInto receiveBuffer: ReceiveBuffer = ReceiveBuffer(),
        descriptors reception: Reception = .received
    ) {
        self.socket = socket
        self.receiveBuffer = receiveBuffer
        self.reception = reception
    }

    // MARK: Receiving

    /// Receives the available bytes.
    ///
    /// - Throws: `SystemError` of `recvmsg`.
    package func fill() throws(SystemError) -> Fill {
        try receivePeeked()
        var disposal: (@Sendable (Int32) -> Void)?
        switch reception {
        case .received: break
        case .disposed(let function): disposal = function
        case .left: return try fillWithoutDescriptors()
        }
        switch try unsafe UnixSocket.receive(into: receiveBuffer.bytes, from: socket, disposal: disposal) {
        case .bytes(let count, let received, let areLost):
            append(count)
            // It is unknown which ones are missing, so none of the message is used.
            descriptors += areLost ? [.lost] : received.map { .descriptor($0) }
            return .received
        case .wouldBlock: return .wouldBlock
        case .end: return .end
        }
    }

    /// Receives bytes that have no descriptors: those that a peek has shown to have none.
    private func fillWithoutDescriptors() throws(SystemError) -> Fill {
        switch try unsafe UnixSocket.peek(into: receiveBuffer.bytes, from: socket) {
        case .bytes(let count):
            append(count)
            peeked = count
            try receivePeeked()
            return .received
        case .bytesWithDescriptors: return .hasDescriptors
        case .wouldBlock: return .wouldBlock
        case .end: return .end
        }
    }

    /// Gives the first bytes of the receive buffer to the decoder.
    private func append(_ count: Int) {
        unsafe decoder.append(UnsafeRawBufferPointer(rebasing: receiveBuffer.bytes[..<count]).bytes)
    }

    /// Takes bytes that another process has received on this channel's socket, and the descriptor that came with them.
    package func take(_ bytes: ArraySlice<UInt8>, _ arrival: Arrival?) {
        decoder.append(bytes)
        if let arrival { descriptors.append(arrival) }
    }

    /// Receives like `fill`, but leaves short data without descriptors in the socket as well, until `receivePeeked`.
    ///
    /// Replying before consuming the request saves a peer that waits in `recvmsg` one spurious wake-up: consuming frees
    /// buffer space, which wakes it, at the cost of two context switches.
    ///
    /// - Throws: `SystemError` of `recvmsg`.
    package func fillPeeking() throws(SystemError) -> Fill {
        try receivePeeked()
        let part = unsafe UnsafeMutableRawBufferPointer(rebasing: receiveBuffer.bytes[..<Self.peekedBytes])
        switch try unsafe UnixSocket.peek(into: part, from: socket) {
        case .bytes(let count):
            if count == Self.peekedBytes { return try fill() }
            append(count)
            peeked = count
            return .received
        case .bytesWithDescriptors: return try fill()
        case .wouldBlock: return .wouldBlock
        case .end: return .end
        }
    }

    /// Consumes the bytes that `fillPeeking` left in the socket.
    ///
    /// - Throws: `SystemError` of `recv`.
    package func receivePeeked() throws(SystemError) {
        while peeked > 0 {
            let part = unsafe UnsafeMutableRawBufferPointer(rebasing: receiveBuffer.bytes[..<peeked])
            let count = try unsafe UnixSocket.take(into: part, from: socket)
            if count == 0 { throw SystemError("recv", code: SystemError.brokenPipe) }
            peeked -= count
        }
    }

    /// Waits until the socket is readable. Returns false when it is not within `milliseconds`; -1 waits without a
    /// limit.
    @discardableResult
    package func waitUntilReadable(milliseconds: Int32 = -1) -> Bool {
        UnixSocket.waitUntilReadable(socket, milliseconds: milliseconds)
    }

    /// Takes the text of the next complete frame; nil if none is complete.
    ///
    /// - Throws: `FrameDecoder.BadLength`, after which nothing more can be read from the channel.
    package func nextFrame() throws(FrameDecoder.BadLength) -> ArraySlice<UInt8>? {
        try decoder.next()
    }

    /// Whether the kernel dropped the descriptors of the frame last returned, because this process may open no more.
    package var areDescriptorsLost: Bool { if case .lost = descriptors.first { true } else { false } }

    /// The descriptor of the frame last returned, if another process has it.
    package var keptDescriptor: KeptDescriptor? {
        if case .kept(let descriptor) = descriptors.first { descriptor } else { nil }
    }

    /// The number of received descriptors that were not taken.
    package var receivedDescriptors: Int { descriptors.count }

    /// Takes the `count` descriptors of the frame last returned; nil when there are fewer, or when they did not come.
    package func takeDescriptors(_ count: Int) -> [FileDescriptor]? {
        if count == 0 { return [] }
        var taken: [FileDescriptor] = []
        // A channel that leaves descriptors in its socket is given the first one of each message.
        var most = count
        if case .left = reception { most = 1 }
        for arrival in descriptors.prefix(most) {
            guard case .descriptor(let descriptor) = arrival else {
                // Of a message whose descriptors did not come, only one entry is kept.
                descriptors.removeFirst(taken.count + 1)
                return nil
            }
            taken.append(descriptor)
        }
        descriptors.removeFirst(taken.count)
        return taken.count == count ? taken : nil
    }

    /// Closes the received descriptors that were not taken, except the first `count`, which may belong to a frame that
    /// is not complete.
    package func closeDescriptors(keeping count: Int = 0) {
        if descriptors.count > count { descriptors.removeSubrange(count...) }
    }

    /// Skips the `count` bytes of payload after the frame last returned.
    package func skipPayload(_ count: Int) {
        decoder.skipPayload(count)
    }

    /// Takes the received bytes of the payload after the frame last returned, at most `count`.
    package func takePayload(upTo count: Int) -> ArraySlice<UInt8> {
        decoder.takePayload(upTo: count)
    }

    /// The number of received bytes that were not taken.
    package var bufferedBytes: Int { decoder.bufferedBytes }

    /// Whether a frame or a payload has been received in part.
    package var isInsideFrame: Bool { decoder.isInsideFrame }

    // MARK: Handing over

    /// The received bytes that were not taken, for another process with this socket. None may be left by `fillPeeking`.
    package var unread: ArraySlice<UInt8> { decoder.unread }

    /// The number of bytes that the peer will send before its next frame, and that are skipped.
    package var payloadToSkip: Int { decoder.payloadToSkip }

    /// What the socket has not accepted.
    package var unsent: [Unsent] {
        outgoing.map { item in
            var payload = item.payload
            if let whole = item.payload {
                payload = FilePayload(
                    file: whole.file, offset: whole.offset + item.payloadSent, count: whole.count - item.payloadSent,
                    name: whole.name)
            }
            return Unsent(bytes: Array(item.bytes[item.sent...]), descriptors: item.descriptors, payload: payload)
        }
    }

    /// Takes over the socket from another process, which has sent at most `unread` descriptors that the peer has not
    /// received.
    package func takeOver(unread: Int) { unreadDescriptors = unread }

    // MARK: Sending

    /// Takes the memory of a sent frame, to be used for the next one.
    package func takeStorage() -> [UInt8] {
        exchange(&spareStorage, with: [])
    }

    /// Queues a frame with its descriptors and its payload. `flush` sends it.
    package func enqueue(_ frame: [UInt8], descriptors: [FileDescriptor] = [], payload: FilePayload? = nil) {
        queuedBytes += frame.count
        queuedDescriptors += descriptors.count
        if payload != nil { queuedPayloads += 1 }
        if payload == nil, joinsNext(descriptors.count) {
            outgoing[outgoing.count - 1].bytes.append(contentsOf: frame)
            outgoing[outgoing.count - 1].descriptors += descriptors
            if frame.capacity <= keptCapacity { spareStorage = frame }
            return
        }
        outgoing.append(Outgoing(bytes: frame, descriptors: descriptors, payload: payload))
    }

    /// Queues a frame that `write` appends to the bytes that are queued already, so that it is not copied once more. If
    /// it throws, it must have appended nothing.
    package func enqueue<Failure>(
        descriptors: [FileDescriptor] = [], appending write: (inout [UInt8]) throws(Failure) -> Void
    ) throws(Failure) {
        let last = joinsNext(descriptors.count) ? outgoing.count - 1 : outgoing.count
        if last == outgoing.count {
            var storage = takeStorage()
            storage.removeAll(keepingCapacity: true)
            outgoing.append(Outgoing(bytes: storage, descriptors: []))
        }
        let before = outgoing[last].bytes.count
        do {
            try write(&outgoing[last].bytes)
        } catch {
            if outgoing[last].bytes.isEmpty { outgoing.removeLast() }
            throw error
        }
        outgoing[last].descriptors += descriptors
        queuedBytes += outgoing[last].bytes.count - before
        queuedDescriptors += descriptors.count
    }

    /// Whether the next frame, with so many descriptors, is joined to the last one, so that one system call sends both.
    private func joinsNext(_ descriptors: Int) -> Bool {
        guard let last = outgoing.last, last.payload == nil, last.bytes.count < Self.bytesTogether else { return false }
        return descriptors == 0
            || joinsDescriptors && last.descriptors.count + descriptors <= Self.descriptorsTogether
    }

    /// Whether frames or payloads are queued.
    package var hasOutgoing: Bool { !outgoing.isEmpty }

    /// The maximum number of bytes that `fillPeeking` leaves in the socket: a few requests.
    private static let peekedBytes = 4096
    /// The maximum number of payload bytes of one `flush`, so that a fast reader of large images does not block an
    /// event loop.
    private static let payloadBytesAtOnce = 4 << 20
    /// The size up to which frames without descriptors are joined, in bytes.
    private static let bytesTogether = 1 << 16
    /// The number up to which the descriptors of frames are joined; a message can carry 253.
    private static let descriptorsTogether = 64

    /// Sends as much as the socket accepts, of payloads at most `payloadBytes`. Returns whether nothing is queued any
    /// more.
    ///
    /// - Throws: `SystemError` of `sendmsg` or `sendfile`. The rest stays queued; after `ENOBUFS` and `ENOMEM` it can
    ///   be sent later.
    @discardableResult
    package func flush(payloadBytes: Int = .max) throws(SystemError) -> Bool {
        var done = 0
        isStalled = false
        payloadBudget = min(payloadBytes, Self.payloadBytesAtOnce)
        defer { outgoing.removeFirst(done) }
        while done < outgoing.count {
            guard try send(&outgoing[done]) else { return false }
            if let payload = outgoing[done].payload {
                sentPayloads.append(payload.name)
                queuedPayloads -= 1
            }
            if outgoing[done].bytes.capacity <= keptCapacity { swap(&spareStorage, &outgoing[done].bytes) }
            done += 1
        }
        return true
    }

    /// Shuts down the sending direction.
    package func endSending() {
        UnixSocket.shutDownSending(socket)
    }

    /// Takes the names of the payloads that were sent completely since the last call.
    package func takeSentPayloads() -> [Int] {
        defer { sentPayloads = [] }
        return sentPayloads
    }

    /// Updates and returns the upper bound of sent descriptors that the peer has not received. Each message of a
    /// channel carries the descriptors of one frame.
    package func countUnreadDescriptors() -> Int {
        if unreadDescriptors > 0 { unreadDescriptors = min(unreadDescriptors, UnixSocket.messagesUnread(on: socket)) }
        return unreadDescriptors
    }

    private func mayHaveUnread(_ count: Int) -> Bool {
        unreadDescriptors + count <= maximumUnread || countUnreadDescriptors() + count <= maximumUnread
    }

    /// Sends the rest of a frame. Returns whether all of it is sent.
    private func send(_ item: inout Outgoing) throws(SystemError) -> Bool {
        if !item.descriptors.isEmpty, !mayHaveUnread(item.descriptors.count) {
            isStalled = UnixSocket.isWritable(socket)
            return false
        }
        while item.sent < item.bytes.count {
            var result: Result<Int?, SystemError> = .success(nil)
            unsafe item.bytes.withUnsafeBytes { bytes in
                let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[item.sent...])
                result = Result { () throws(SystemError) in
                    try unsafe UnixSocket.send(rest, descriptors: item.descriptors, on: socket)
                }
            }
            if case .failure(let error) = result, error.code == SystemError.tooManyReferences {
                isStalled = true
                return false
            }
            guard let count = try result.get() else { return false }
            item.sent += count
            sentBytes &+= count
            queuedBytes -= count
            if !item.descriptors.isEmpty {
                unreadDescriptors += item.descriptors.count
                queuedDescriptors -= item.descriptors.count
                item.descriptors = []
            }
        }
        guard let payload = item.payload else { return true }
        while item.payloadSent < payload.count {
            if payloadBudget == 0 { return false }
            let step = min(payload.count - item.payloadSent, payloadBudget)
            guard
                let count = try UnixSocket.sendFile(
                    payload.file, at: payload.offset + item.payloadSent, count: step, on: socket)
            else { return false }
            if count == 0 { throw SystemError("sendfile", code: SystemError.brokenPipe) }
            item.payloadSent += count
            sentBytes &+= count
            payloadBudget -= count
        }
        return true
    }
}
