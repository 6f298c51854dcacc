public import HTTPValues
public import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
internal import SharedCache

/// A connection to the broker.
///
/// A connection and its leases belong to the process that has made it. After `fork` the child leaves it alone, objects of
/// pictures included, and makes one of its own: both would read the same stream, and each give back the other's leases.
/// What the parent has mapped stays valid in the child. A program started by `exec` inherits nothing.
///
/// `get` and its kin wait for their answer. `send` and `receive` let many requests be under way at once; the answers come
/// in the order in which they are ready. One thread uses a connection at a time; images may go anywhere.
public final class ImageBroker {
    /// An answer, or news of a request that is under way.
    public enum Incoming {
        /// A picture; another follows unless `description.final`.
        case image(id: Int, BrokerImage)
        /// Bytes downloaded so far, and how many there will be.
        case progress(id: Int, received: Int, expected: Int?)
        /// What a subscriber is told; the id is that of the subscription.
        case event(id: Int, BrokerEvent)
        /// Any other answer.
        case reply(Reply)
    }

    /// How much a client keeps mapped of what it was given: pictures that are asked for again and again. Each stays leased,
    /// and while it is kept and the broker's validity page says that a request would get it again, `get` returns it
    /// without a word to the broker.
    public struct Keeping: Sendable {
        /// How many pictures, each of which is a descriptor and a mapping.
        public var images: Int
        /// How many bytes of them.
        public var bytes: Int

        /// Usual amounts.
        public init(images: Int = 256, bytes: Int = 64 << 20) {
            self.images = images
            self.bytes = bytes
        }
    }

    private struct Held {
        let buffer: SealedBuffer
        /// Leases that were granted and not given back.
        var leases: Int
        /// The last request sent before the last lease was given back: until that is answered, the broker may count on
        /// this process still having the descriptor.
        var neededUntil = 0
    }

    private let channel: FrameChannel
    private let returns = LeaseReturns()
    /// Pictures that need not be asked for again; nil for a client that keeps none.
    ///
    /// Not checked for overlapping accesses at run time, which would take a fifth of a hit: nothing that it calls leads back
    /// here. What is let go of by it adds to `returns`, and to nothing else.
    @exclusivity(unchecked) private var kept: KeptImages?
    private var held: [Int: Held] = [:]
    /// Buffers whose descriptor did not arrive; the broker counts on it all the same, until all leases are given back.
    private var lost: Set<Int> = []
    /// Whether some of them have no lease any more.
    private var hasReturned = false
    private var unanswered: Set<Int> = []
    private var lastID = 0
    private var stash: [Incoming] = []

    /// Connects to the broker at `path`; without one, to where brokers usually listen.
    ///
    /// - Parameter keeping: how many pictures to keep for when `get` asks for them again, if any. It makes the broker be
    ///   asked for its validity page; with one that has none, nothing is kept.
    /// - Throws: `ClientError.noBroker`; with `keeping` whatever the first answer may lead to.
    public init(path: String? = nil, keeping: Keeping? = nil) throws(ClientError) {
        let path = path ?? SocketPath.forClient
        do {
            channel = FrameChannel(socket: try UnixSocket.connect(to: path))
        } catch {
            throw .noBroker(path: path, error)
        }
        if let keeping { unsafe kept = try view().map { KeptImages(keeping, page: $0) } }
    }

    /// The broker's validity page; nil when it has none.
    private func view() throws(ClientError) -> ValidityView? {
        guard case .hello(_, let hello) = try ask({ .hello(id: $0, client: nil, validity: true) }) else {
            throw Self.unexpected
        }
        guard let slots = hello.slots else { return nil }
        // A process that has no descriptor left does without.
        if channel.areDescriptorsLost {
            _ = channel.takeDescriptors(1)
            return nil
        }
        guard let page = channel.takeDescriptors(1)?.first else { throw .protocolViolation("no validity page came") }
        do { return try ValidityView(verifying: page, slots: slots) } catch {
            throw .protocolViolation("a validity page that is none")
        }
    }

    // MARK: One at a time

    /// Loads the picture at `url` and waits for it.
    ///
    /// - Parameters:
    ///   - options: what is wanted, and how.
    ///   - preview: sees what is cached, however old, before the origin is asked whether it is still good; it is not called
    ///     when nothing is cached. Giving it sets the options `cache` to `noCache` and `staleFirst`.
    ///   - partial: sees the picture as far as it has come, at most a few times a second while it is downloaded; it is not
    ///     called for kinds of picture that come in no parts. Giving it sets the option `progressive`.
    ///   - progress: is told on the way how many bytes are there, and how many there will be, where that is known.
    /// - Returns: the final picture, new or confirmed. It, a preview and each partial picture are leases of their own, each
    ///   given back when the object is let go of.
    /// - Throws: `ClientError`; `refused` with the broker's reason. That a preview was shown does not mean that the picture
    ///   comes.
    public func get(
        _ url: String, _ options: GetOptions = GetOptions(), preview: ((BrokerImage) -> Void)? = nil,
        partial: ((BrokerImage) -> Void)? = nil, progress: ((Int, Int?) -> Void)? = nil
    ) throws(ClientError) -> BrokerImage {
        if preview == nil, let (image, isTellingDue) = unsafe kept?.image(at: url, options) {
            // Who is not there to be told is found out by who is asked.
            if isTellingDue { try? write([]) }
            return image
        }
        let asked = options
        var options = options
        if partial != nil { options.progressive = true }
        if progress != nil { options.progress = true }
        if preview != nil {
            options.cache = .noCache
            options.staleFirst = true
        }
        let source: SourceURL
        do { source = try SourceURL(url) } catch { throw .refused(WireError(error)) }
        var id = try send(get: source, options)
        while true {
            switch try incoming(for: id) {
            case .image(_, let image):
                if image.description.final {
                    if preview == nil { unsafe kept?.keep(image, at: url, asked) }
                    return image
                }
                // What was cached comes from elsewhere.
                let show = image.description.source == .network ? partial : preview
                show?(image)
            case .progress(_, let received, let expected): progress?(received, expected)
            case .reply(.error(_, let error)):
                // What is asked for comes before what is kept.
                guard error.code == .quotaExceeded || error.code == .overloaded, unsafe kept?.isEmpty == false else {
                    throw .refused(error)
                }
                unsafe kept?.removeAll()
                id = try send(get: source, options)
            case .reply, .event: throw .protocolViolation("a get was answered with something else")
            }
        }
    }

    /// Who the broker is, and its limits.
    ///
    /// - Throws: `ClientError`.
    public func hello(client: String? = nil) throws(ClientError) -> HelloReply {
        guard case .hello(_, let hello) = try ask({ .hello(id: $0, client: client) }) else { throw Self.unexpected }
        return hello
    }

    /// The broker's figures.
    ///
    /// - Throws: `ClientError`.
    public func stats() throws(ClientError) -> StatsReport {
        guard case .stats(_, let report) = try ask({ .stats(id: $0) }) else { throw Self.unexpected }
        return report
    }

    // MARK: Many at once

    /// Asks for the picture at `url` without waiting, and returns the request's id.
    ///
    /// - Throws: `ClientError`.
    public func send(get url: SourceURL, _ options: GetOptions = GetOptions()) throws(ClientError) -> Int {
        try send { .get(GetRequest(id: $0, url: url, options: options)) }
    }

    /// Waits for the next answer or news of any request.
    ///
    /// - Throws: `ClientError`.
    public func receive() throws(ClientError) -> Incoming {
        if !stash.isEmpty { return stash.removeFirst() }
        return try receiveFromSocket()
    }

    /// Gives back the leases of images that are gone. Otherwise they go with the next request.
    ///
    /// - Throws: `ClientError`.
    public func returnLeases() throws(ClientError) {
        try write([])
    }

    // MARK: Steps

    private static let releasesInOneFrame = 10_000
    static let unexpected = ClientError.protocolViolation("an unexpected kind of answer")

    /// Sends a message under a new id and returns that.
    func send(
        descriptors: [FileDescriptor] = [], _ message: (Int) -> ClientMessage
    ) throws(ClientError) -> Int {
        lastID += 1
        unanswered.insert(lastID)
        try write(message(lastID).encoded(), descriptors: descriptors)
        return lastID
    }

    /// Sends a message and waits for its one answer.
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

    /// Sends a message whose answer says nothing but that it is done.
    func tell(descriptors: [FileDescriptor] = [], _ message: (Int) -> ClientMessage) throws(ClientError) {
        guard case .ok = try ask(descriptors: descriptors, message) else { throw Self.unexpected }
    }

    /// The next news of request `id`; that of others is kept for `receive`.
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
        // First: what was used may be among what is given back.
        if let touch = unsafe kept?.takeTouch() { channel.enqueue(touch.encoded()) }
        let returned = returns.take()
        if !returned.isEmpty {
            hasReturned = true
            // In parts, as a frame has its limit.
            for start in stride(from: 0, to: returned.count, by: Self.releasesInOneFrame) {
                let part = returned[start..<min(start + Self.releasesInOneFrame, returned.count)]
                channel.enqueue(ClientMessage.release(buffers: Array(part)).encoded())
            }
            for buffer in returned {
                held[buffer]?.leases -= 1
                held[buffer]?.neededUntil = lastID
            }
        }
        if !frame.isEmpty { channel.enqueue(frame, descriptors: descriptors) }
        do { try channel.flush() } catch { throw .connectionLost }
        forgetReturned()
    }

    private func forgetReturned() {
        guard hasReturned else { return }
        let oldest = unanswered.min() ?? .max
        held = held.filter { $0.value.leases > 0 || $0.value.neededUntil >= oldest }
        hasReturned = held.values.contains { $0.leases == 0 }
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
        switch reply {
        case .image(let id, let image): return .image(id: id, try picture(image))
        case .progress(let id, let received, let expected):
            return .progress(id: id, received: received, expected: expected)
        case .event(let id, let event): return .event(id: id, event)
        default: return .reply(reply)
        }
    }

    private func nextFrame() throws(ClientError) -> ArraySlice<UInt8> {
        do {
            while true {
                if let frame = try channel.nextFrame() { return frame }
                channel.waitUntilReadable()
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

    /// Puts a description and its bytes together, and believes in the bytes only after a look at their seals.
    private func picture(_ image: ImageReply) throws(ClientError) -> BrokerImage {
        let areLost = image.descriptors > 0 && channel.areDescriptorsLost
        let descriptors = channel.takeDescriptors(image.descriptors)
        if descriptors == nil, !areLost { throw .protocolViolation("a descriptor did not arrive") }
        let (end, overflowed) = image.offset.addingReportingOverflow(image.bytes)
        if overflowed { throw .protocolViolation("sizes that cannot be") }
        if image.payload > 0 {
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
                throw .protocolViolation("a buffer that is not sealed, or too small")
            }
        }
        guard let buffer = held[number]?.buffer else {
            guard lost.contains(number) else { throw .protocolViolation("a buffer that was never sent") }
            returns.add(number)
            throw .descriptorLost
        }
        held[number]?.leases += 1
        return try BrokerImage(image, buffer: buffer, lease: Lease(buffer: number, returned: returns))
    }
}
