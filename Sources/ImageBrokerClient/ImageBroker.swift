public import HTTPValues
public import IPCProtocol
internal import IPCTransport
public import LinuxSystem
internal import SharedCache

/// A connection to the broker.
///
/// A connection and its leases belong to the process that opened it. After `fork` the child must neither use nor
/// release the connection or its images, but open its own connection: otherwise both would read the same stream, and
/// each would release the other's leases. Mappings of the parent stay valid in the child. A program started by `exec`
/// inherits nothing.
///
/// `get` and similar methods wait for their reply. `send` and `receive` allow many requests in flight; replies arrive
/// in the order in which they are ready. One thread uses a connection at a time; images may be used on any thread.
public final class ImageBroker {
    /// A reply, or progress of a request in flight.
    public enum Incoming: Sendable {
        /// An image; another one follows unless `reply.final`.
        case image(id: Int, BrokerImage)
        /// The number of bytes downloaded so far, and the total if known.
        case progress(id: Int, received: Int, expected: Int?)
        /// An event; the id is that of the subscription.
        case event(id: Int, BrokerEvent)
        /// Any other reply.
        case reply(Reply)
    }

    /// The limits for images that a client keeps because it requests them repeatedly. Each stays leased. While the
    /// broker's validity page says that a request would get a kept image again, `get` returns it without a message to
    /// the broker.
    public struct Keeping: Sendable {
        /// The maximum number of images.
        public var images: Int
        /// The maximum number of their bytes.
        public var bytes: Int
        /// The maximum number of images that are in no segment. Each takes a descriptor and a mapping.
        public var descriptors: Int

        /// Creates limits; the defaults suit most programs.
        public init(images: Int = 4096, bytes: Int = 256 << 20, descriptors: Int = 256) {
            self.images = images
            self.bytes = bytes
            self.descriptors = descriptors
        }
    }

    private let session: Session
    private let keeping: Keeping?
    /// Images for repeated requests; nil for a client that keeps none.
    ///
    /// Overlapping accesses are not checked at run time, which would take a fifth of a hit. They cannot occur, because
    /// `KeptImages` never calls this object; images that it releases add to `releases` only.
    @exclusivity(unchecked) private var kept: KeptImages?
    /// The identities and options under which the images of files in flight will be kept.
    private var keptFiles: [Int: (identity: String, options: GetOptions)] = [:]
    /// Messages for other requests than that which a method waited for.
    private var stash: [Result<Incoming, ClientError>] = []
    /// The silence in milliseconds after which a sign of life is requested; nil to wait without a limit.
    private let patience: Int?
    /// The request for a sign of life.
    private var ping: Int?

    /// Connects to the broker at `path`, or at the default path.
    ///
    /// - Parameters:
    ///   - path: the socket; nil for that of `SocketPath.forClient`.
    ///   - keeping: the limits for kept images; nil to keep none. The broker is asked for its validity page; without
    ///     one, nothing is kept.
    ///   - patience: the milliseconds of silence after which a request asks the broker for a sign of life; after as
    ///     long again without one it fails with `notAnswering`. Nil to wait without a limit.
    ///   - client: the program's name and version for the broker's statistics, at most 255 bytes: "name/version".
    /// - Throws: `ClientError`: `noBroker`; with `keeping` any error of a request.
    public init(
        path: String? = nil, keeping: Keeping? = nil, patience: Int? = nil, client: String? = nil
    ) throws(ClientError) {
        (self.patience, self.keeping) = (patience, keeping)
        let path = path ?? SocketPath.forClient
        do {
            let socket = try UnixSocket.connect(to: path, milliseconds: patience)
            session = Session(socket, releases: PendingReleases(), client: client)
        } catch {
            throw .noBroker(path: path, error)
        }
        if keeping == nil {
            // The answer makes no difference, so nothing waits for it.
            session.enqueueHello(validity: false)
        } else {
            _ = try perform(.hello(client: client, validity: true))
            startKeeping()
        }
    }

    deinit {
        unsafe kept = nil
        stash = []
        session.abandon()
    }

    /// Keeps images by the validity page that has come, if one has.
    private func startKeeping() {
        guard let keeping, let page = session.page else { return }
        unsafe kept = KeptImages((keeping.images, keeping.bytes, keeping.descriptors), page)
    }

    // MARK: Single requests

    /// Loads the image at `url` and waits for it.
    ///
    /// - Parameters:
    ///   - url: an `http` or `https` URL, or a `data:` URL, whose bytes are decoded here.
    ///   - options: the variant, and how to load it.
    ///   - preview: called with the cached image, fresh or stale, before it is revalidated; not called when nothing is
    ///     cached. Sets the options `cache` to `noCache` and `staleFirst`.
    ///   - partial: called with the image as far as it has been downloaded, at most a few times a second; not called
    ///     for formats that cannot be shown in part. Sets the option `progressive`.
    ///   - progress: called with the number of bytes downloaded so far, and with their total if it is known.
    /// - Returns: the final image, new or revalidated. It, a preview and each partial image have a lease each, released
    ///   with the object.
    /// - Throws: `ClientError`; `refused` with the broker's reason, which may also follow a preview.
    public func get(
        _ url: String, _ options: GetOptions = GetOptions(), preview: ((BrokerImage) -> Void)? = nil,
        partial: ((BrokerImage) -> Void)? = nil, progress: ((Int, Int?) -> Void)? = nil
    ) throws(ClientError) -> BrokerImage {
        if preview == nil, let (image, isReportDue) = unsafe kept?.image(at: url, options) {
            // If the broker is gone, the next request fails.
            if isReportDue { try? returnLeases() }
            return image
        }
        if DataURL.isSpelled(url) {
            let bytes = try ClientError.refusing { () throws(InvalidURL) in try DataURL.bytes(of: url) }
            return try get(bytes: bytes, options)
        }
        let source = try ClientError.refusing { () throws(InvalidURL) in try SourceURL(url) }
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
                guard error.code == .quotaExceeded || error.code == .overloaded, unsafe kept?.makeRoom() == true else {
                    throw .refused(error)
                }
                id = try send(options)
            case .reply, .event: throw .protocolViolation("a get got a reply of another kind")
            }
        }
    }

    /// Requests the broker's version and limits.
    public func hello(client: String? = nil) throws(ClientError) -> HelloReply {
        try perform(.hello(client: client))
    }

    /// Requests the broker's figures.
    public func stats() throws(ClientError) -> StatsReport {
        try perform(.stats)
    }

    // MARK: Concurrent requests

    /// Requests the image at `url` without waiting. Returns the request's id.
    public func send(get url: SourceURL, _ options: GetOptions = GetOptions()) throws(ClientError) -> Int {
        try send { .get(GetRequest(id: $0, url: url, options: options)) }
    }

    /// Changes a request of `send(get:)`. One that has ended stays as it is, as with a broker without the addition
    /// `update`.
    ///
    /// - Parameters:
    ///   - request: the request's id.
    ///   - priority: the new priority; nil to keep it.
    ///   - detach: whether its download goes on, for the cache, when this client leaves.
    public func update(
        _ request: Int, priority: GetOptions.Priority? = nil, detach: Bool = false
    ) throws(ClientError) {
        if priority == nil, !detach { return }
        try perform(.update(request, priority: priority, detach: detach))
    }

    /// Waits for the next reply or progress of any request.
    public func receive() throws(ClientError) -> Incoming {
        if !stash.isEmpty { return try stash.removeFirst().get() }
        return try receiveFromSocket()
    }

    /// Releases the leases of images that were released by this process now; otherwise with the next request.
    public func returnLeases() throws(ClientError) {
        session.enqueueDue(report: unsafe kept?.takeTouch())
        try flush()
    }

    // MARK: Steps

    static let unexpected = ClientError.protocolViolation("an unexpected kind of reply")

    /// Sends a message with a new id and returns the id.
    func send(
        descriptors: [FileDescriptor] = [], _ message: (Int) -> ClientMessage
    ) throws(ClientError) -> Int {
        let id = try session.enqueue(descriptors: descriptors, report: unsafe kept?.takeTouch(), message)
        try flush()
        return id
    }

    private func flush() throws(ClientError) {
        if try !session.flush(), !session.isRefused, patience != nil { throw .notAnswering }
    }

    /// Waits for bytes, at most for `patience`, and sends meanwhile the messages that the kernel has refused. Returns
    /// whether bytes have arrived.
    private func waitUntilReadable() throws(ClientError) -> Bool {
        var rest = patience ?? .max
        repeat {
            do throws(ClientError) {
                if session.channel.hasOutgoing { try flush() }
            } catch {
                // A broker that has closed the connection may have sent replies before.
                if !session.channel.waitUntilReadable(milliseconds: 0) { throw error }
                return true
            }
            let time = session.channel.hasOutgoing ? min(rest, Session.sendPauseMs) : rest
            if session.channel.waitUntilReadable(milliseconds: Int32(clamping: time)) { return true }
            rest -= time
        } while rest > 0
        return false
    }

    /// Sends a request and waits for its only reply.
    func perform<Value>(_ call: Call<Value>) throws(ClientError) -> Value {
        let id = try send(descriptors: call.descriptors, call.message)
        switch try incoming(for: id) {
        case .reply(.error(_, let error)): throw .refused(error)
        case .reply(let reply):
            guard let value = call.value(reply) else { throw Self.unexpected }
            return value
        case .image, .progress, .event: throw Self.unexpected
        }
    }

    /// Waits for the next reply or progress of request `id`; those of other requests are kept for `receive`.
    func incoming(for id: Int) throws(ClientError) -> Incoming {
        while true {
            let incoming = try receiveFromSocket(for: id)
            if incoming.id == id { return incoming }
            if incoming.id == nil, case .reply(.error(_, let error)) = incoming { throw .refused(error) }
            stash.append(.success(incoming))
        }
    }

    /// Waits for the next reply or progress. Stashes the error of an image that cannot be used, if it is of another
    /// request than `awaited`; nil awaits all.
    private func receiveFromSocket(for awaited: Int? = nil) throws(ClientError) -> Incoming {
        while true {
            switch try session.next() {
            case .incoming(.reply(let reply)):
                if let ping, reply.id == ping { self.ping = nil; continue }
                if let id = reply.id, !keptFiles.isEmpty { keptFiles[id] = nil }
                return .reply(reply)
            case .incoming(let incoming):
                keep(incoming)
                return incoming
            // The final image follows.
            case .unusableImage(_, isFinal: false, _): break
            case .unusableImage(let id, isFinal: true, let error):
                keptFiles[id] = nil
                if awaited == nil || id == awaited { throw error }
                stash.append(.failure(error))
            case .ownHello: startKeeping()
            case .segmentEnded(let number):
                unsafe kept?.removeImages(inSegment: number)
                // If the broker is gone, its last replies and the end of the connection follow.
                try? returnLeases()
            case nil:
                if try waitUntilReadable() { try session.fill() } else { try requestSignOfLife() }
            }
        }
    }

    // MARK: Files

    /// Returns the image in a file that a `get` would return without a message to the broker: one that was loaded with
    /// the same options before, from the unchanged file of a local file system, and that is kept. Takes about 1 µs, and
    /// never waits.
    ///
    /// - Parameters:
    ///   - file: a regular file that is open for reading.
    ///   - options: as those of `get(path:)`.
    /// - Returns: the image; nil when the broker must be asked.
    public func kept(file: FileDescriptor, _ options: GetOptions = GetOptions()) -> BrokerImage? {
        guard unsafe kept?.isEmpty == false, let identity = file.identityText,
            let (image, isReportDue) = unsafe kept?.image(at: identity, options)
        else { return nil }
        // If the broker is gone, the next request fails.
        if isReportDue { try? returnLeases() }
        return image
    }

    /// Requests the image in a file without waiting. Returns the request's id.
    public func send(
        getFile file: FileDescriptor, name: String? = nil, _ options: GetOptions = GetOptions()
    ) throws(ClientError) -> Int {
        // The image is kept under the identity that the file has before.
        let identity = unsafe kept == nil ? nil : file.identityText
        let id = try send(descriptors: [file]) {
            .get(GetRequest(id: $0, file: LocalFile(name: name), options: options))
        }
        if let identity { keptFiles[id] = (identity, options.withoutReports) }
        return id
    }

    /// Keeps the image of a file.
    private func keep(_ incoming: Incoming) {
        if keptFiles.isEmpty { return }
        guard case .image(let id, let image) = incoming, image.reply.final,
            let (identity, options) = keptFiles.removeValue(forKey: id)
        else { return }
        unsafe kept?.keep(image, at: identity, options)
    }

    /// Requests anything that the broker answers at once.
    private func requestSignOfLife() throws(ClientError) {
        if patience == nil { return }
        if ping != nil { throw .notAnswering }
        ping = try send { .stats(id: $0) }
    }
}
