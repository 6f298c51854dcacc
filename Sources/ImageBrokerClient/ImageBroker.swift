public import HTTPValues
public import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
internal import SharedCache

/// A connection to the broker.
///
/// A connection and its leases belong to the process that opened it. After `fork` the child must not use the connection or
/// release its images, but open its own connection: otherwise both would read the same stream, and each would release the
/// other's leases. Mappings of the parent stay valid in the child. A program started by `exec` inherits nothing.
///
/// `get` and similar methods wait for their reply. `send` and `receive` allow many requests in flight; replies arrive in
/// the order in which they are ready. One thread uses a connection at a time; images may be used on any thread.
public final class ImageBroker {
    /// A reply, or progress of a request in flight.
    public enum Incoming {
        /// An image; another one follows unless `reply.final`.
        case image(id: Int, BrokerImage)
        /// The number of bytes downloaded so far, and the total if known.
        case progress(id: Int, received: Int, expected: Int?)
        /// An event; the id is that of the subscription.
        case event(id: Int, BrokerEvent)
        /// Any other reply.
        case reply(Reply)
    }

    /// The limits for images that a client keeps mapped because it requests them repeatedly. Each stays leased. While the
    /// broker's validity page says that a request would get a kept image again, `get` returns it without a message to the
    /// broker.
    public struct Keeping: Sendable {
        /// The maximum number of images; each takes a descriptor and a mapping.
        public var images: Int
        /// The maximum number of their bytes.
        public var bytes: Int

        /// Creates limits; the defaults suit most programs.
        public init(images: Int = 256, bytes: Int = 64 << 20) {
            self.images = images
            self.bytes = bytes
        }
    }

    private struct Held {
        let buffer: SealedBuffer
        /// The number of leases that were granted and not released.
        var leases: Int
        /// The last request sent before the last lease was released: until its reply, the broker may assume that this
        /// process still has the descriptor.
        var neededUntil = 0
    }

    private let channel: FrameChannel
    private let releases = PendingReleases()
    /// Images for repeated requests; nil for a client that keeps none.
    ///
    /// Overlapping accesses are not checked at run time, which would take a fifth of a hit. They cannot occur, because
    /// `KeptImages` never calls this object; images that it releases add to `releases` only.
    @exclusivity(unchecked) private var kept: KeptImages?
    private var held: [Int: Held] = [:]
    /// Buffers whose descriptor was lost; the broker assumes that it arrived until all their leases are released.
    private var lost: Set<Int> = []
    /// Whether some entries of `held` have no lease.
    private var hasReleased = false
    private var unanswered: Set<Int> = []
    private var lastID = 0
    private var stash: [Incoming] = []
    /// The silence in milliseconds after which a sign of life is requested; nil to wait without a limit.
    private let patience: Int?
    /// The request for a sign of life.
    private var ping: Int?

    /// Connects to the broker at `path`, or at the default path.
    ///
    /// - Parameters:
    ///   - keeping: the limits for kept images; nil to keep none. The broker is asked for its validity page; without one, nothing
    ///     is kept.
    ///   - patience: the milliseconds of silence after which a request asks the broker for a sign of life; after as long again
    ///     without one it fails with `notAnswering`. Nil to wait without a limit.
    /// - Throws: `ClientError`: `noBroker`; with `keeping` any error of a request.
    public init(
        path: String? = nil, keeping: Keeping? = nil, patience: Int? = nil
    ) throws(ClientError) {
        self.patience = patience
        let path = path ?? SocketPath.forClient
        do {
            channel = FrameChannel(socket: try UnixSocket.connect(to: path, milliseconds: patience))
        } catch {
            throw .noBroker(path: path, error)
        }
        if let keeping, let page = try requestValidityPage() {
            unsafe kept = KeptImages(maximumImages: keeping.images, maximumBytes: keeping.bytes, page: page)
        }
    }

    /// Requests the broker's validity page; nil when it has none.
    private func requestValidityPage() throws(ClientError) -> ValidityView? {
        guard case .hello(_, let hello) = try ask({ .hello(id: $0, client: nil, validity: true) }) else {
            throw Self.unexpected
        }
        guard let slots = hello.slots else { return nil }
        // The page is optional: a process without free descriptors keeps no images.
        if channel.areDescriptorsLost {
            _ = channel.takeDescriptors(1)
            return nil
        }
        guard let page = channel.takeDescriptors(1)?.first else {
            throw .protocolViolation("the validity page is missing")
        }
        do { return try ValidityView(verifying: page, slots: slots) } catch {
            throw .protocolViolation("the validity page is invalid")
        }
    }

    // MARK: Single requests

    /// Loads the image at `url` and waits for it.
    ///
    /// - Parameters:
    ///   - options: the variant, and how to load it.
    ///   - preview: called with the cached image, fresh or stale, before it is revalidated; not called when nothing is cached.
    ///     Sets the options `cache` to `noCache` and `staleFirst`.
    ///   - partial: called with the image as far as it has been downloaded, at most a few times a second; not called for
    ///     formats that cannot be shown in part. Sets the option `progressive`.
    ///   - progress: called with the number of bytes downloaded so far, and with their total if it is known.
    /// - Returns: the final image, new or revalidated. It, a preview and each partial image have a lease each, released with
    ///   the object.
    /// - Throws: `ClientError`; `refused` with the broker's reason, which may also follow a preview.
    public func get(
        _ url: String, _ options: GetOptions = GetOptions(), preview: ((BrokerImage) -> Void)? = nil,
        partial: ((BrokerImage) -> Void)? = nil, progress: ((Int, Int?) -> Void)? = nil
    ) throws(ClientError) -> BrokerImage {
        if preview == nil, let (image, isReportDue) = unsafe kept?.image(at: url, options) {
            // If the broker is gone, the next request fails.
            if isReportDue { try? write([]) }
            return image
        }
        let source: SourceURL
        do { source = try SourceURL(url) } catch { throw .refused(WireError(error)) }
        let image = try load(options, preview: preview, partial: partial, progress: progress) {
            (options) throws(ClientError) in try send(get: source, options)
        }
        if preview == nil { unsafe kept?.keep(image, at: url, options) }
        return image
    }

    /// Sends a request by `send`, and waits for its final image.
    func load(
        _ options: GetOptions, preview: ((BrokerImage) -> Void)? = nil, partial: ((BrokerImage) -> Void)?,
        progress: ((Int, Int?) -> Void)?, by send: (GetOptions) throws(ClientError) -> Int
    ) throws(ClientError) -> BrokerImage {
        var options = options
        if partial != nil { options.progressive = true }
        if progress != nil { options.progress = true }
        if preview != nil {
            options.cache = .noCache
            options.staleFirst = true
        }
        var id = try send(options)
        while true {
            switch try incoming(for: id) {
            case .image(_, let image):
                if image.reply.final { return image }
                // A preview comes from the cache.
                let show = image.reply.source == .network ? partial : preview
                show?(image)
            case .progress(_, let received, let expected): progress?(received, expected)
            case .reply(.error(_, let error)):
                // Requested images take precedence over kept ones.
                guard error.code == .quotaExceeded || error.code == .overloaded, unsafe kept?.isEmpty == false else {
                    throw .refused(error)
                }
                unsafe kept?.removeAll()
                id = try send(options)
            case .reply, .event: throw .protocolViolation("a get got a reply of another kind")
            }
        }
    }

    /// Requests the broker's version and limits.
    ///
    /// - Throws: `ClientError`.
    public func hello(client: String? = nil) throws(ClientError) -> HelloReply {
        guard case .hello(_, let hello) = try ask({ .hello(id: $0, client: client) }) else { throw Self.unexpected }
        return hello
    }

    /// Requests the broker's figures.
    ///
    /// - Throws: `ClientError`.
    public func stats() throws(ClientError) -> StatsReport {
        guard case .stats(_, let report) = try ask({ .stats(id: $0) }) else { throw Self.unexpected }
        return report
    }

    // MARK: Concurrent requests

    /// Requests the image at `url` without waiting. Returns the request's id.
    ///
    /// - Throws: `ClientError`.
    public func send(get url: SourceURL, _ options: GetOptions = GetOptions()) throws(ClientError) -> Int {
        try send { .get(GetRequest(id: $0, url: url, options: options)) }
    }

    /// Waits for the next reply or progress of any request.
    ///
    /// - Throws: `ClientError`.
    public func receive() throws(ClientError) -> Incoming {
        if !stash.isEmpty { return stash.removeFirst() }
        return try receiveFromSocket()
    }

    /// Releases the leases of images that were released by this process now; otherwise with the next request.
    ///
    /// - Throws: `ClientError`.
    public func returnLeases() throws(ClientError) {
        try write([])
    }

    // MARK: Steps

    private static let releasesInOneFrame = 10_000
    /// The protocol's maximum of an inline image, `maxInlineBytes`.
    private static let maximumInlineBytes = 64 << 20
    static let unexpected = ClientError.protocolViolation("an unexpected kind of reply")

    /// Sends a message with a new id and returns the id.
    func send(
        descriptors: [FileDescriptor] = [], _ message: (Int) -> ClientMessage
    ) throws(ClientError) -> Int {
        let frame: [UInt8]
        do { frame = try message(lastID + 1).encoded() } catch {
            throw .refused(WireError(.badRequest, "The request of \(error.length) bytes is too long for a frame."))
        }
        lastID += 1
        unanswered.insert(lastID)
        try write(frame, descriptors: descriptors)
        return lastID
    }

    /// Sends a message and waits for its only reply.
    func ask(
        descriptors: [FileDescriptor] = [], _ message: (Int) -> ClientMessage
    ) throws(ClientError) -> Reply {
        let id = try send(descriptors: descriptors, message)
        switch try incoming(for: id) {
        case .reply(.error(_, let error)): throw .refused(error)
        case .reply(let reply): return reply
        case .image, .progress, .event: throw Self.unexpected
        }
    }

    /// Sends a message and waits for its `ok`.
    func tell(descriptors: [FileDescriptor] = [], _ message: (Int) -> ClientMessage) throws(ClientError) {
        guard case .ok = try ask(descriptors: descriptors, message) else { throw Self.unexpected }
    }

    /// Waits for the next reply or progress of request `id`; those of other requests are kept for `receive`.
    func incoming(for id: Int) throws(ClientError) -> Incoming {
        while true {
            let incoming = try receiveFromSocket()
            let subject: Int? =
                switch incoming {
                case .image(let id, _), .progress(let id, _, _), .event(let id, _): id
                case .reply(let reply): reply.id
                }
            if subject == id { return incoming }
            if subject == nil, case .reply(.error(_, let error)) = incoming { throw .refused(error) }
            stash.append(incoming)
        }
    }

    private func write(_ frame: [UInt8], descriptors: [FileDescriptor] = []) throws(ClientError) {
        // Before the releases, which may include buffers of this report.
        if let touch = unsafe kept?.takeTouch(), let frame = try? touch.encoded() { channel.enqueue(frame) }
        let released = releases.take()
        if !released.isEmpty {
            hasReleased = true
            // In parts, because a frame has a limit.
            for start in stride(from: 0, to: released.count, by: Self.releasesInOneFrame) {
                let part = released[start..<min(start + Self.releasesInOneFrame, released.count)]
                if let frame = try? ClientMessage.release(buffers: Array(part)).encoded() { channel.enqueue(frame) }
            }
            for buffer in released {
                held[buffer]?.leases -= 1
                held[buffer]?.neededUntil = lastID
            }
        }
        if !frame.isEmpty { channel.enqueue(frame, descriptors: descriptors) }
        let isSent: Bool
        do { isSent = try channel.flush() } catch { throw .connectionLost }
        if !isSent, patience != nil { throw .notAnswering }
        forgetReleased()
    }

    private func forgetReleased() {
        guard hasReleased else { return }
        let oldest = unanswered.min() ?? .max
        held = held.filter { $0.value.leases > 0 || $0.value.neededUntil >= oldest }
        hasReleased = held.values.contains { $0.leases == 0 }
    }

    private func receiveFromSocket() throws(ClientError) -> Incoming {
        let reply: Reply
        do {
            reply = try Reply(decoding: try nextFrame())
        } catch let error as BadReply {
            throw .protocolViolation(error.description)
        } catch let error as ClientError {
            throw error
        } catch {
            throw .protocolViolation("\(error)")
        }
        if reply.isTerminal, let id = reply.id { unanswered.remove(id) }
        if let ping, reply.id == ping {
            self.ping = nil
            return try receiveFromSocket()
        }
        switch reply {
        case .image(let id, let image): return .image(id: id, try self.image(of: image))
        case .progress(let id, let received, let expected):
            return .progress(id: id, received: received, expected: expected)
        case .event(let id, let event): return .event(id: id, event)
        default: return .reply(reply)
        }
    }

    /// Requests anything that the broker answers at once.
    private func requestSignOfLife() throws(ClientError) {
        if patience == nil { return }
        if ping != nil { throw .notAnswering }
        ping = try send { .stats(id: $0) }
    }

    private func nextFrame() throws(ClientError) -> ArraySlice<UInt8> {
        do {
            while true {
                if let frame = try channel.nextFrame() { return frame }
                guard channel.waitUntilReadable(milliseconds: Int32(clamping: patience ?? -1)) else {
                    try requestSignOfLife()
                    continue
                }
                if try channel.fill() == .end { throw ClientError.connectionLost }
            }
        } catch let error as ClientError {
            throw error
        } catch let error as SystemError {
            throw .system(error)
        } catch {
            throw .protocolViolation("\(error)")
        }
    }

    /// Combines a reply with its bytes, after verifying the seals of their buffer.
    private func image(of image: ImageReply) throws(ClientError) -> BrokerImage {
        let areLost = image.descriptors > 0 && channel.areDescriptorsLost
        let descriptors = channel.takeDescriptors(image.descriptors)
        if descriptors == nil, !areLost { throw .protocolViolation("a descriptor is missing") }
        let (end, overflowed) = image.offset.addingReportingOverflow(image.bytes)
        if overflowed || !image.holdsPixels { throw .protocolViolation("the sizes are invalid") }
        if image.payload > 0 {
            // Before memory is reserved for it.
            guard image.payload == image.bytes, image.offset == 0, image.payload <= Self.maximumInlineBytes else {
                throw .protocolViolation("a payload of \(image.payload) bytes for an image of \(image.bytes)")
            }
            do { return BrokerImage(image, payload: try channel.receivePayload(image.payload)) } catch {
                throw .connectionLost
            }
        }
        guard let number = image.buffer else { return BrokerImage(image, payload: nil) }
        if areLost { lost.insert(number) }
        if let descriptor = descriptors?.first {
            lost.remove(number)
            do {
                let buffer = try SealedBuffer(verifying: descriptor, size: end)
                held[number] = Held(buffer: buffer, leases: held[number]?.leases ?? 0)
            } catch {
                throw .protocolViolation("a buffer is not sealed, or too small")
            }
        }
        guard let buffer = held[number]?.buffer else {
            guard lost.contains(number) else { throw .protocolViolation("an unknown buffer") }
            releases.add(number)
            throw .descriptorLost
        }
        held[number]?.leases += 1
        return try BrokerImage(image, buffer: buffer, lease: LeaseToken(buffer: number, releases: releases))
    }
}
