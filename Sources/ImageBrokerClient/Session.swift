internal import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
internal import SharedCache

/// The state of a connection to the broker: ids, received images and leases. It neither waits nor locks: its owner
/// waits for the socket, and lets one thread at a time use the session.
final class Session {
    /// A result of receiving.
    enum Event {
        /// A reply or progress.
        case incoming(ImageBroker.Incoming)
        /// An image that this process cannot use: it has no free descriptor, or no memory to map it. The connection
        /// stays usable, and the lease is released.
        case unusableImage(id: Int, isFinal: Bool, ClientError)
        /// The broker has answered a `hello` of the session; `page` is nil if no validity page came.
        case ownHello
        /// No further image will be in the segment with this number.
        case segmentEnded(Int)
    }

    private struct Held {
        let buffer: SealedBuffer
        /// The number of leases that were granted and not released.
        var leases: Int
        /// The last request sent before the last lease was released: until its reply, the broker may assume that this
        /// process still has the descriptor.
        var neededUntil = 0
    }

    /// The frames and the socket.
    let channel: FrameChannel
    /// The leases that images have released.
    let releases: PendingReleases
    private let client: String?
    /// The validity page that came with a reply to `hello`; nil without one that can be used.
    private(set) var page: ValidityView?
    /// The id of a `hello` that no caller waits for; nil after the broker has answered it.
    private var ownHello: Int?
    private var held: [Int: Held] = [:]
    /// The numbers of held buffers that had no lease when they were released last.
    private var unleased: Set<Int> = []
    /// Buffers whose descriptor was lost; the broker assumes that it arrived until all their leases are released.
    private var lost: Set<Int> = []
    private var segments: SegmentTable
    private var unanswered: Set<Int> = []
    private var subscriptions: Set<Int> = []
    /// No request with a smaller id is unanswered.
    private var oldestUnanswered = 0
    /// The newest request that was answered.
    private var newestAnswered = -1
    private(set) var lastID = -1
    /// The newest request when room was last made for those that were refused.
    var roomMadeAt = -1
    /// Whether the kernel has refused to send the queued messages for now, because too many descriptors of the user are
    /// in flight or it lacks memory. The socket is writable meanwhile, so `flush` must be called again after
    /// `sendPauseMs`.
    private(set) var isRefused = false
    /// An inline image whose payload has not arrived completely.
    private var incomplete: (id: Int, reply: ImageReply, bytes: [UInt8])?

    /// The time after which messages that the kernel has refused are sent again, in milliseconds.
    static let sendPauseMs = 10
    private static let releasesInOneFrame = 10_000
    /// The protocol's maximum of an inline image, `maxInlineBytes`.
    private static let maximumInlineBytes = 64 << 20
    /// The maximum number of received descriptors while no frame is complete: that of the incomplete one, and one that
    /// no message expects.
    private static let maximumEarlyDescriptors = 2

    /// Creates a session over a connected socket; `client` is the program's name and version for each `hello` of the
    /// session.
    init(_ socket: FileDescriptor, releases: PendingReleases, client: String? = nil) {
        self.client = client
        channel = FrameChannel(socket: socket)
        segments = SegmentTable(socket)
        self.releases = releases
    }

    // MARK: Sending

    /// Queues a request with a new id, after the messages that are due. Returns the id.
    ///
    /// - Parameter report: the uses of kept images since the last report.
    /// - Throws: `ClientError.refused` when the message does not fit into a frame; it is not queued then.
    func enqueue(
        descriptors: [FileDescriptor] = [], report: ClientMessage?, _ message: (Int) -> ClientMessage
    ) throws(ClientError) -> Int {
        renewPage()
        let message = message(lastID + 1)
        let frame: [UInt8]
        do { frame = try message.encoded() } catch {
            throw .refused(WireError(.badRequest, "The request of \(error.length) bytes is too long for a frame."))
        }
        enqueueDue(report: report)
        enqueueFrame(frame, descriptors: descriptors)
        if case .subscribe = message { subscriptions.insert(lastID) }
        if case .cancel(_, let request) = message { subscriptions.remove(request) }
        return lastID
    }

    private func enqueueFrame(_ frame: [UInt8], descriptors: [FileDescriptor] = []) {
        lastID += 1
        unanswered.insert(lastID)
        channel.enqueue(frame, descriptors: descriptors)
    }

    /// Queues a request for the next validity page if the present one has ended although the connection goes on:
    /// another program has taken the broker's place. Without an answer that has a page, no further one is requested.
    private func renewPage() {
        guard let page, !page.hasOwner else { return }
        self.page = nil
        enqueueHello(validity: true)
    }

    /// Queues a `hello` that no caller waits for.
    func enqueueHello(validity: Bool) {
        let hello = Call.hello(client: client, validity: validity)
        guard let frame = try? hello.message(lastID + 1).encoded() else { return }
        enqueueFrame(frame)
        ownHello = lastID
    }

    /// Queues the report, the leases that were released, and the segments that are not needed any more.
    func enqueueDue(report: ClientMessage?) {
        // Before the releases, which may include buffers of this report.
        if let frame = try? report?.encoded() { channel.enqueue(frame) }
        let released = releases.take()
        // In parts, because a frame has a limit.
        for start in stride(from: 0, to: released.count, by: Self.releasesInOneFrame) {
            let part = released[start..<min(start + Self.releasesInOneFrame, released.count)]
            if let frame = try? ClientMessage.release(buffers: part.map(\.buffer)).encoded() { channel.enqueue(frame) }
        }
        for lease in released {
            if let segment = lease.segment {
                segments.removeLease(in: segment)
                continue
            }
            let buffer = lease.buffer
            held[buffer]?.leases -= 1
            held[buffer]?.neededUntil = lastID
            if held[buffer]?.leases == 0 { unleased.insert(buffer) }
        }
        // After the releases, because the broker ignores a segment with a lease.
        let forgotten = segments.takeForgotten()
        if !forgotten.isEmpty, let frame = try? ClientMessage.forgetSegments(forgotten).encoded() {
            channel.enqueue(frame)
        }
    }

    /// Whether a segment is mapped that is not needed any more, so that `enqueueDue` is due.
    var hasSegmentsToForget: Bool { segments.hasForgotten }

    /// Sends the queued messages. Returns whether the socket has accepted all of it.
    ///
    /// - Throws: `ClientError.connectionLost`.
    func flush() throws(ClientError) -> Bool {
        isRefused = false
        var isSent = false
        do throws(SystemError) {
            isSent = try channel.flush()
            isRefused = channel.isStalled
        } catch {
            guard [SystemError.noBufferSpace, SystemError.outOfMemory].contains(error.code) else {
                throw .connectionLost
            }
            isRefused = true
        }
        closeUnleased()
        return isSent
    }

    /// Releases the leases of images that were released, and cancels the requests in flight and subscriptions, for a
    /// session that is left: an image in a segment keeps its connection open, and with it all that is not ended now.
    /// The broker would end a connection whose events nobody reads, and its segments.
    func abandon() {
        enqueueDue(report: nil)
        if !segments.hasLeases { return }
        for number in unanswered.union(subscriptions).sorted() where number != ownHello {
            _ = try? enqueue(report: nil) { .cancel(id: $0, request: number) }
        }
        // A broker that does not read must not hold up the program.
        try? channel.socket.setNonBlocking()
        _ = try? flush()
    }

    /// Closes the descriptors of buffers without leases that no pending reply can refer to.
    private func closeUnleased() {
        if unleased.isEmpty { return }
        while oldestUnanswered <= lastID, !unanswered.contains(oldestUnanswered) { oldestUnanswered += 1 }
        for buffer in unleased {
            guard let entry = held[buffer], entry.leases == 0 else {
                unleased.remove(buffer)
                continue
            }
            // The broker reads messages in their order: its answer to a later request shows that it has read the
            // release.
            if entry.neededUntil < max(oldestUnanswered, newestAnswered) {
                held[buffer] = nil
                unleased.remove(buffer)
            }
        }
    }

    // MARK: Receiving

    /// Receives the available bytes; waits for some if the socket blocks.
    ///
    /// - Throws: `ClientError`: `connectionLost` at the end.
    func fill() throws(ClientError) {
        let result: FrameChannel.Fill
        do { result = try channel.fill() } catch { throw .system(error) }
        if result == .end { throw .connectionLost }
    }

    /// Returns the next event that the received bytes contain; nil until more have arrived.
    ///
    /// - Throws: `ClientError`: `protocolViolation`, after which the session is unusable.
    func next() throws(ClientError) -> Event? {
        if incomplete != nil { return try continuePayload() }
        let frame: ArraySlice<UInt8>?
        do { frame = try channel.nextFrame() } catch { throw .protocolViolation("\(error)") }
        guard let frame else {
            try closeUnexpectedDescriptors()
            if unanswered.isEmpty { lost = [] }
            return nil
        }
        let reply: Reply
        do { reply = try Reply(decoding: frame) } catch { throw .protocolViolation(error.description) }
        if reply.isTerminal, let id = reply.id {
            unanswered.remove(id)
            newestAnswered = max(newestAnswered, id)
        }
        if case .hello(_, let hello) = reply, let slots = hello.slots { try receivePage(slots: slots) }
        if let ownHello, reply.id == ownHello {
            self.ownHello = nil
            return .ownHello
        }
        switch reply {
        case .image(let id, let image): return try receive(image, id)
        case .progress(let id, let received, let expected):
            return .incoming(.progress(id: id, received: received, expected: expected))
        case .event(let id, let event): return .incoming(.event(id: id, event))
        case .segmentEnded(let number):
            segments.end(number)
            return .segmentEnded(number)
        default: return .incoming(.reply(reply))
        }
    }

    /// Closes received descriptors that no message has expected. Those of an incomplete frame came with its first byte,
    /// in one message.
    private func closeUnexpectedDescriptors() throws(ClientError) {
        if !channel.isInsideFrame {
            channel.closeDescriptors()
        } else if channel.receivedDescriptors > Self.maximumEarlyDescriptors {
            throw .protocolViolation("descriptors within a frame")
        }
    }

    private func receivePage(slots: Int) throws(ClientError) {
        // The page is optional: a process without free descriptors keeps no images.
        if channel.areDescriptorsLost {
            _ = channel.takeDescriptors(1)
            return
        }
        guard let descriptor = channel.takeDescriptors(1)?.first else {
            throw .protocolViolation("the validity page is missing")
        }
        let view: ValidityView
        do { view = try ValidityView(verifying: descriptor, slots: slots) } catch {
            throw .protocolViolation("the validity page is invalid")
        }
        if view.isKnown, view.hasOwner { page = view }
    }

    private func continuePayload() throws(ClientError) -> Event? {
        guard var image = incomplete.take() else { return nil }
        image.bytes += channel.takePayload(upTo: image.reply.payload - image.bytes.count)
        if image.bytes.count == image.reply.payload {
            return .incoming(.image(id: image.id, BrokerImage(image.reply, payload: image.bytes)))
        }
        incomplete = image
        try closeUnexpectedDescriptors()
        return nil
    }

    /// Combines a reply with its bytes, after verifying the seals of their buffer.
    private func receive(_ image: ImageReply, _ id: Int) throws(ClientError) -> Event? {
        let areLost = image.descriptors > 0 && channel.areDescriptorsLost
        let descriptors = channel.takeDescriptors(image.descriptors)
        if descriptors == nil, !areLost { throw .protocolViolation("a descriptor is missing") }
        let (end, overflowed) = image.offset.addingReportingOverflow(image.bufferBytes)
        if overflowed || image.bufferBytes < image.bytes || !image.holdsPixels {
            throw .protocolViolation("the sizes are invalid")
        }
        if image.segment != nil || image.segmentBytes != nil {
            return try receiveInSegment(image, id, descriptors?.first, end: end)
        }
        if image.payload > 0 {
            // Before memory is reserved for it.
            guard image.payload == image.bufferBytes, image.offset == 0, image.payload <= Self.maximumInlineBytes else {
                throw .protocolViolation("a payload of \(image.payload) bytes for an image of \(image.bufferBytes)")
            }
            var bytes: [UInt8] = []
            bytes.reserveCapacity(image.payload)
            incomplete = (id, image, bytes)
            return try continuePayload()
        }
        guard let number = image.buffer else { return .incoming(.image(id: id, BrokerImage(image, payload: nil))) }
        if areLost { lost.insert(number) }
        if let descriptor = descriptors?.first {
            lost.remove(number)
            do {
                let buffer = try SealedBuffer(verifying: descriptor, atLeast: end)
                held[number] = Held(buffer: buffer, leases: held[number]?.leases ?? 0)
            } catch {
                throw .protocolViolation("a buffer is not sealed, or too small")
            }
        }
        guard let buffer = held[number]?.buffer else {
            guard lost.contains(number) else { throw .protocolViolation("an unknown buffer") }
            releases.add(Lease(buffer: number, segment: nil))
            return .unusableImage(id: id, isFinal: image.final, .descriptorLost)
        }
        if buffer.size < end { throw .protocolViolation("a buffer is too small") }
        held[number]?.leases += 1
        let lease = LeaseToken(Lease(buffer: number, segment: nil), releases: releases)
        do {
            return .incoming(.image(id: id, try BrokerImage(image, buffer: buffer, lease: lease)))
        } catch {
            return .unusableImage(id: id, isFinal: image.final, error)
        }
    }

    /// Combines a reply with its bytes in a segment.
    ///
    /// - Parameter descriptor: the segment's; nil when none has come, or it was lost.
    private func receiveInSegment(
        _ image: ImageReply, _ id: Int, _ descriptor: FileDescriptor?, end: Int
    ) throws(ClientError) -> Event {
        guard let number = image.segment, let buffer = image.buffer, image.payload == 0,
            (image.segmentBytes != nil) == (image.descriptors > 0)
        else { throw .protocolViolation("an image in a segment lacks a field") }
        let lease = Lease(buffer: buffer, segment: number)
        switch try segments.addLease(in: number, size: image.segmentBytes, descriptor, end: end) {
        case .success(let segment):
            let token = LeaseToken(lease, releases: releases)
            return .incoming(.image(id: id, BrokerImage(image, segment: segment, lease: token)))
        case .failure(let error):
            releases.add(lease)
            return .unusableImage(id: id, isFinal: image.final, error)
        }
    }
}

extension ImageBroker.Incoming {
    /// The id of the request; nil for an error of the connection.
    var id: Int? {
        switch self {
        case .image(let id, _), .progress(let id, _, _), .event(let id, _): id
        case .reply(let reply): reply.id
        }
    }

    /// Whether this is the last reply to a request.
    var isTerminal: Bool {
        switch self {
        case .image(_, let image): image.reply.final
        case .progress, .event: false
        case .reply(let reply): reply.isTerminal
        }
    }
}
