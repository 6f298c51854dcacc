package import IPCProtocol
package import LinuxSystem

/// One end of a stream socket that carries frames, their descriptors and their payloads.
///
/// Whether its calls wait is the socket's own setting. One thread uses a channel at a time.
package final class FrameChannel {
    /// What one `fill` brought.
    package enum Fill: Equatable {
        /// Bytes came; frames may be complete.
        case received
        /// Nothing is there now.
        case wouldBlock
        /// The other end has closed.
        case end
    }

    /// Bytes of a file that follow a frame, sent without passing through this process.
    package struct FilePayload {
        /// The file, or memfd.
        package let file: FileDescriptor
        /// How many of its bytes, from the first on.
        package let count: Int
        /// Names the payload in `takeSentPayloads`.
        package let name: Int

        /// The first `count` bytes of `file`, known as `name`.
        package init(file: FileDescriptor, count: Int, name: Int) {
            self.file = file
            self.count = count
            self.name = name
        }
    }

    /// Where bytes arrive before they are put to their frames. The channels of one thread can share one.
    package final class ReceiveBuffer {
        fileprivate var bytes = [UInt8](repeating: 0, count: 1 << 16)

        /// Room for what one `fill` brings.
        package init() {}
    }

    /// The socket itself, for an event loop to watch.
    package let socket: FileDescriptor

    private let receiveBuffer: ReceiveBuffer
    /// So many bytes that the decoder has are still in the socket.
    private var peeked = 0
    private var decoder = FrameDecoder()
    /// Those that came and were not taken; nil stands for those of one message that the kernel had to drop.
    private var descriptors: [FileDescriptor?] = []
    /// So many of one message are kept.
    private let descriptorsPerMessage: Int
    /// At most so many descriptors are on their way to the other end.
    private var unread = 0
    private var outgoing: [Outgoing] = []
    private var sentPayloads: [Int] = []
    private var spareStorage: [UInt8] = []
    private var payloadBudget = 0

    /// The bytes of frames (not of payloads) that wait to be sent.
    package private(set) var queuedBytes = 0

    /// Descriptors that wait to be sent.
    package private(set) var queuedDescriptors = 0

    /// Payloads that wait to be sent, in full or in part.
    package private(set) var queuedPayloads = 0

    /// Whether a descriptor waits to be sent until some that are on their way have been received, though the socket is
    /// writable: there is nothing to watch for, and `flush` must be tried again after a while.
    package private(set) var isStalled = false
    /// So many descriptors may be on their way: the kernel bounds them for all together, and who does not receive would
    /// leave nothing to others.
    package var maximumUnread = Int.max

    private struct Outgoing {
        var bytes: [UInt8]
        var sent = 0
        var descriptors: [FileDescriptor]
        var payload: FilePayload?
        var payloadSent = 0
    }

    /// Carries frames over `socket`.
    ///
    /// - Parameter descriptorsPerMessage: so many at most are kept of those that come at once.
    package init(
        socket: FileDescriptor, receivingInto receiveBuffer: ReceiveBuffer = ReceiveBuffer(),
        descriptorsPerMessage: Int = .max
    ) {
        self.socket = socket
        self.receiveBuffer = receiveBuffer
        self.descriptorsPerMessage = descriptorsPerMessage
    }

    // MARK: Receiving

    /// Receives what is there.
    ///
    /// - Throws: `SystemError` of `recvmsg`.
    package func fill() throws(SystemError) -> Fill {
        try receivePeeked()
        var result: Result<UnixSocket.Received, SystemError> = .success(.wouldBlock)
        unsafe receiveBuffer.bytes.withUnsafeMutableBytes { buffer in
            result = Result { () throws(SystemError) in try unsafe UnixSocket.receive(into: buffer, from: socket) }
            if case .success(.bytes(let count, _, _)) = result {
                unsafe decoder.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]).bytes)
            }
        }
        switch try result.get() {
        case .bytes(_, let received, let areLost):
            // Which of them are missing is not known, so none of the message is used.
            if areLost {
                descriptors.append(nil)
            } else {
                for each in received.prefix(descriptorsPerMessage) { descriptors.append(each) }
            }
            return .received
        case .wouldBlock: return .wouldBlock
        case .end: return .end
        }
    }

    /// As `fill`, but little that comes without descriptors stays in the socket as well, until `receivePeeked`.
    ///
    /// Who waits in `recvmsg` for an answer is woken when his request is received, as there is room for more then, and
    /// sleeps again, at the cost of two switches between processes. Is the answer there before, he is woken by that alone.
    ///
    /// - Throws: `SystemError` of `recvmsg`.
    package func fillPeeking() throws(SystemError) -> Fill {
        try receivePeeked()
        var result: Result<UnixSocket.Peeked, SystemError> = .success(.wouldBlock)
        unsafe receiveBuffer.bytes.withUnsafeMutableBytes { buffer in
            let part = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<Self.peekedBytes])
            result = Result { () throws(SystemError) in try unsafe UnixSocket.peek(into: part, from: socket) }
            if case .success(.bytes(let count)) = result, count < Self.peekedBytes {
                unsafe decoder.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]).bytes)
                peeked = count
            }
        }
        switch try result.get() {
        case .bytes: return peeked > 0 ? .received : try fill()
        case .bytesWithDescriptors: return try fill()
        case .wouldBlock: return .wouldBlock
        case .end: return .end
        }
    }

    /// Takes out of the socket what `fillPeeking` has left there.
    ///
    /// - Throws: `SystemError` of `recv`.
    package func receivePeeked() throws(SystemError) {
        while peeked > 0 {
            var result: Result<Int, SystemError> = .success(0)
            unsafe receiveBuffer.bytes.withUnsafeMutableBytes { buffer in
                let part = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<peeked])
                result = Result { () throws(SystemError) in try unsafe UnixSocket.take(into: part, from: socket) }
            }
            let count = try result.get()
            if count == 0 { throw SystemError("recv", code: SystemError.brokenPipe) }
            peeked -= count
        }
    }

    /// Waits until `fill` has something to do; false when it has not within so many milliseconds (-1: however long).
    @discardableResult
    package func waitUntilReadable(milliseconds: Int32 = -1) -> Bool {
        UnixSocket.waitUntilReadable(socket, milliseconds: milliseconds)
    }

    /// The text of the next complete frame; nil while there is none.
    ///
    /// - Throws: `FrameDecoder.BadLength`; nothing more can be read from the channel then.
    package func nextFrame() throws(FrameDecoder.BadLength) -> ArraySlice<UInt8>? {
        try decoder.next()
    }

    /// Whether those that came with the frame last returned were dropped by the kernel, as this process may open no more.
    package var areDescriptorsLost: Bool { descriptors.first.map { $0 == nil } ?? false }

    /// Takes the `count` descriptors that came with the frame last returned; nil when fewer came, or they are lost.
    package func takeDescriptors(_ count: Int) -> [FileDescriptor]? {
        if count == 0 { return [] }
        if areDescriptorsLost {
            descriptors.removeFirst()
            return nil
        }
        let kept = min(count, descriptorsPerMessage)
        guard descriptors.count >= kept else { return nil }
        let taken = descriptors.prefix(kept).compactMap { $0 }
        descriptors.removeFirst(kept)
        return taken.count == count ? taken : nil
    }

    /// Closes descriptors that came and were not taken, but for the first ones where a frame that is still arriving may
    /// bring so many.
    package func closeDescriptors(keeping count: Int = 0) {
        if descriptors.count > count { descriptors.removeSubrange(count...) }
    }

    /// Steps over the `count` bytes of payload that follow the frame last returned.
    package func skipPayload(_ count: Int) {
        decoder.skipPayload(count)
    }

    /// Takes up to `count` of the bytes of payload that follow the frame last returned: those that have arrived.
    package func takePayload(upTo count: Int) -> ArraySlice<UInt8> {
        decoder.takePayload(upTo: count)
    }

    /// Receives the `count` bytes of payload that follow the frame last returned, waiting for them.
    ///
    /// - Throws: `SystemError`; `EPIPE` of `recvmsg` when the other end closes before all are there.
    package func receivePayload(_ count: Int) throws(SystemError) -> [UInt8] {
        var payload: [UInt8] = []
        payload.reserveCapacity(count)
        while true {
            payload.append(contentsOf: decoder.takePayload(upTo: count - payload.count))
            if payload.count == count { return payload }
            if try fill() == .end { throw SystemError("recvmsg", code: SystemError.brokenPipe) }
        }
    }

    /// The bytes that have arrived and were not taken.
    package var bufferedBytes: Int { decoder.bufferedBytes }

    /// Whether a frame or a payload has begun to arrive and is not complete.
    package var isInsideFrame: Bool { decoder.isInsideFrame }

    // MARK: Sending

    /// The memory of a frame that was sent, for the next one to be written into.
    package func takeStorage() -> [UInt8] {
        exchange(&spareStorage, with: [])
    }

    /// Puts a frame behind those that wait, with its descriptors and what follows it. `flush` sends it.
    package func enqueue(_ frame: [UInt8], descriptors: [FileDescriptor] = [], payload: FilePayload? = nil) {
        queuedBytes += frame.count
        queuedDescriptors += descriptors.count
        if payload != nil { queuedPayloads += 1 }
        if descriptors.isEmpty, payload == nil, let last = outgoing.indices.last, outgoing[last].payload == nil,
            outgoing[last].bytes.count < Self.bytesTogether
        {
            // One call sends them all.
            outgoing[last].bytes.append(contentsOf: frame)
            if frame.capacity <= Self.keptCapacity { spareStorage = frame }
            return
        }
        outgoing.append(Outgoing(bytes: frame, descriptors: descriptors, payload: payload))
    }

    /// Whether frames or payloads wait to be sent.
    package var hasOutgoing: Bool { !outgoing.isEmpty }

    /// So many bytes are looked at before they are received: a few requests.
    private static let peekedBytes = 4096
    /// The most bytes of payload that one `flush` sends: a fast reader of large pictures does not keep a loop from others.
    private static let payloadBytesAtOnce = 4 << 20
    /// Frames without descriptors are put together until they are so many bytes.
    private static let bytesTogether = 1 << 16
    /// The memory of a long frame is not kept for as long as its connection.
    private static let keptCapacity = 4096

    /// Sends what the socket takes, and of payloads so many bytes at most; true when nothing waits any more.
    ///
    /// - Throws: `SystemError` of `sendmsg` or `sendfile`; nothing more can be sent then.
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
            if outgoing[done].bytes.capacity <= Self.keptCapacity { swap(&spareStorage, &outgoing[done].bytes) }
            done += 1
        }
        return true
    }

    /// Tells the other end that nothing more will come.
    package func endSending() {
        UnixSocket.shutDownSending(socket)
    }

    /// The names of the payloads that were sent completely since the last call.
    package func takeSentPayloads() -> [Int] {
        defer { sentPayloads = [] }
        return sentPayloads
    }

    /// At most so many descriptors were sent that the other end has not received.
    package func countUnreadDescriptors() -> Int {
        if unread > 0 { unread = min(unread, Self.messagesUnread(on: socket)) }
        return unread
    }

    /// At most so many messages were sent on a socket that the other end has not received. Of those of this class, each
    /// brings the descriptors of one frame.
    package static func messagesUnread(on socket: FileDescriptor) -> Int {
        UnixSocket.unreadBytes(on: socket) / UnixSocket.bytesOfUnreadMessage
    }

    private func mayHaveUnread(_ count: Int) -> Bool {
        unread + count <= maximumUnread || countUnreadDescriptors() + count <= maximumUnread
    }

    /// Sends what is left of one frame; true when all of it is sent.
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
            queuedBytes -= count
            if !item.descriptors.isEmpty {
                unread += item.descriptors.count
                queuedDescriptors -= item.descriptors.count
                item.descriptors = []
            }
        }
        guard let payload = item.payload else { return true }
        while item.payloadSent < payload.count {
            if payloadBudget == 0 { return false }
            let step = min(payload.count - item.payloadSent, payloadBudget)
            guard let count = try UnixSocket.sendFile(payload.file, at: item.payloadSent, count: step, on: socket)
            else { return false }
            if count == 0 { throw SystemError("sendfile", code: SystemError.brokenPipe) }
            item.payloadSent += count
            payloadBudget -= count
        }
        return true
    }
}
