internal import HTTPValues
public import IPCProtocol
public import LinuxSystem
internal import SharedCache

/// A connection to the broker for any number of tasks.
///
/// ```swift
/// let broker = AsyncImageBroker()
/// let image = try await broker.image(at: "https://example.org/picture.jpg", width: 256)
/// ```
///
/// All requests share one connection, however many tasks make them, and the broker answers each when it is ready. The
/// connection is opened with the first request. One thread of its own receives; no thread waits for a single request.
///
/// - **Errors.** Asynchronous methods throw `ClientError`, and `CancellationError` when their task is cancelled.
/// - **Cancellation.** A request of a task that is cancelled throws `CancellationError` at once, and the broker stops
///   the work if nobody else waits for it.
/// - **Restarts.** If the broker exits, the next request connects again. Requests in flight are sent once more over the
///   new connection, and throw `ClientError.connectionLost` if that one is lost, too.
/// - **Kept images.** Images that are requested again stay mapped. As long as the broker's validity page says that a
///   request would get the same image again, it is returned without a message to the broker and without suspension.
///
/// When the last references to the broker and to its images in segments are released, the connection is closed. Images
/// stay valid. A connection belongs to the process that opened it: after `fork`, the child makes another broker.
public final class AsyncImageBroker: Sendable {
    let engine: Engine
    let path: String?

    /// Creates a client of the broker at `path`. Neither connects nor fails: errors are those of the first request.
    ///
    /// - Parameters:
    ///   - path: the socket; nil for the default path, which is that of `SocketPath.forClient` at each connection.
    ///   - keeping: the limits for kept images; nil to keep none.
    ///   - reconnect: how long requests wait for a broker that was connected and has exited.
    public init(
        path: String? = nil, keeping: ImageBroker.Keeping? = .init(), reconnect: Duration = .seconds(5)
    ) {
        self.path = path
        let (seconds, attoseconds) = reconnect.components
        // A year is as good as for ever.
        let milliseconds = min(seconds, 31_536_000) * 1000 + attoseconds / 1_000_000_000_000_000
        engine = Engine(path: path, keeping: keeping, reconnectMs: Int(milliseconds))
    }

    deinit {
        engine.close()
    }

    // MARK: Images

    /// Loads the image at `url`.
    ///
    /// - Parameters:
    ///   - url: an `http` or `https` URL.
    ///   - width: the width of the box in pixels; nil for that of `options`.
    ///   - height: the height of the box in pixels; nil for that of `options`. With one of the two, the other follows
    ///     from the aspect ratio; with neither, the image has its full size.
    ///   - fit: how the image fits the box; nil for that of `options`.
    ///   - options: the form of the image, and how to load it.
    /// - Returns: the image. Its lease is released with the object.
    /// - Throws: `ClientError`; `CancellationError` when the task is cancelled.
    nonisolated(nonsending) public func image(
        at url: String, width: Int? = nil, height: Int? = nil, fit: Transform.Fit? = nil,
        options: GetOptions = GetOptions()
    ) async throws -> BrokerImage {
        let options = options.fitting(width: width, height: height, fit: fit)
        if let image = engine.keptImage(at: url, options) { return image }
        return try await finalImage(try get(url, options))
    }

    /// Returns the image that `image(at:)` would return without a message to the broker: one that was loaded with the
    /// same options before, and that is still what the broker would return. For code that draws and cannot wait. Takes
    /// about 0.1 µs.
    ///
    /// - Returns: the image; nil when the broker must be asked.
    public func keptImage(
        at url: String, width: Int? = nil, height: Int? = nil, fit: Transform.Fit? = nil,
        options: GetOptions = GetOptions()
    ) -> BrokerImage? {
        engine.keptImage(at: url, options.fitting(width: width, height: height, fit: fit))
    }

    /// Loads the image in the file at `path`, which this process opens for reading.
    ///
    /// - Parameters:
    ///   - path: the path of a regular file; of a swift-system `FilePath`, its `string`. Opening it may wait for its
    ///     file system; on one that may hang, open it elsewhere and use ``image(in:name:width:height:fit:options:)``.
    ///   - width: the width of the box in pixels; nil for that of `options`.
    ///   - height: the height of the box in pixels; nil for that of `options`.
    ///   - fit: how the image fits the box; nil for that of `options`.
    ///   - options: the form of the image. Options of HTTP (`headers`, `credentials`, `cookies`, `cacheKey`,
    ///     `allowInvalidCertificates`, `staleFirst`, `timeoutMs`) are refused with `bad-request`.
    /// - Returns: the image. All clients that load the same unchanged file share its bytes.
    /// - Throws: `ClientError`: `system` when the file cannot be opened; `CancellationError`.
    nonisolated(nonsending) public func image(
        atPath path: String, width: Int? = nil, height: Int? = nil, fit: Transform.Fit? = nil,
        options: GetOptions = GetOptions()
    ) async throws -> BrokerImage {
        let file = try LocalFile.open(path)
        let name = LocalFile.name(ofPath: path)
        return try await image(in: file, name: name, width: width, height: height, fit: fit, options: options)
    }

    /// Loads the image in a regular file that is open for reading. Its position does not matter, and stays as it is.
    ///
    /// - Parameters:
    ///   - file: the open file.
    ///   - name: the name in the broker's events, at most 255 bytes.
    ///   - width: the width of the box in pixels; nil for that of `options`.
    ///   - height: the height of the box in pixels; nil for that of `options`.
    ///   - fit: how the image fits the box; nil for that of `options`.
    ///   - options: as those of ``image(atPath:width:height:fit:options:)``.
    /// - Returns: the image.
    nonisolated(nonsending) public func image(
        in file: FileDescriptor, name: String? = nil, width: Int? = nil, height: Int? = nil,
        fit: Transform.Fit? = nil, options: GetOptions = GetOptions()
    ) async throws -> BrokerImage {
        let options = options.fitting(width: width, height: height, fit: fit)
        if let identity = file.identityText, let image = engine.keptImage(at: identity, options) { return image }
        return try await finalImage(try get(file, name, options))
    }

    /// Loads the image in encoded bytes, such as an upload or a message's attachment.
    ///
    /// - Parameters:
    ///   - bytes: the encoded image, which is copied once.
    ///   - name: the name in the broker's events, at most 255 bytes.
    ///   - width: the width of the box in pixels; nil for that of `options`.
    ///   - height: the height of the box in pixels; nil for that of `options`.
    ///   - fit: how the image fits the box; nil for that of `options`.
    ///   - options: as those of ``image(atPath:width:height:fit:options:)``.
    /// - Returns: the image. All clients that load the same bytes share it.
    nonisolated(nonsending) public func image(
        from bytes: some Collection<UInt8>, name: String? = nil, width: Int? = nil, height: Int? = nil,
        fit: Transform.Fit? = nil, options: GetOptions = GetOptions()
    ) async throws -> BrokerImage {
        let file = try SealedBuffer.copy(of: bytes).descriptor
        return try await image(in: file, name: name, width: width, height: height, fit: fit, options: options)
    }

    // MARK: Steps

    /// Requests an image.
    func get(_ url: String, _ options: GetOptions, noting requests: PendingRequests? = nil) throws -> Updates {
        try Task.checkCancellation()
        if DataURL.isSpelled(url) {
            let bytes = try ClientError.refusing { () throws(InvalidURL) in try DataURL.bytes(of: url) }
            return try get(SealedBuffer.copy(of: bytes).descriptor, nil, options, noting: requests)
        }
        let source = try Self.source(url)
        return engine.submit { updates in
            let request = Request(
                { .get(GetRequest(id: $0, url: source, options: options)) },
                keepAs: options.staleFirst ? nil : (url, options.withoutReports), updates: updates,
                accepts: \.isOfImage)
            requests?.note(request)
            return request
        }
    }

    /// Requests the image in a file.
    func get(
        _ file: FileDescriptor, _ name: String?, _ options: GetOptions, noting requests: PendingRequests? = nil
    ) throws -> Updates {
        try Task.checkCancellation()
        return engine.submit { updates in
            let request = Request(
                { .get(GetRequest(id: $0, file: LocalFile(name: name), options: options)) }, descriptors: [file],
                // By its identity as of now: if it is changed before the broker sees it, this identity never comes
                // back.
                keepAs: file.identityText.map { ($0, options.withoutReports) }, updates: updates,
                accepts: \.isOfImage)
            requests?.note(request)
            return request
        }
    }

    /// Sends a request and waits for its only reply.
    nonisolated(nonsending) func perform<Value>(_ call: Call<Value>) async throws -> Value {
        try Task.checkCancellation()
        let updates = engine.submit { updates in
            Request(call.message, descriptors: call.descriptors, updates: updates) {
                if case .reply(let reply) = $0 { call.value(reply) != nil } else { false }
            }
        }
        for try await incoming in updates {
            if case .reply(let reply) = incoming, let value = call.value(reply) { return value }
        }
        throw CancellationError()
    }

    nonisolated(nonsending) private func finalImage(_ updates: Updates) async throws -> BrokerImage {
        for try await incoming in updates {
            if case .image(_, let image) = incoming, image.reply.final { return image }
        }
        // A stream ends without its last element when its task is cancelled.
        throw CancellationError()
    }
}

extension ImageBroker.Incoming {
    /// Whether this is a reply to a `get`.
    fileprivate var isOfImage: Bool {
        switch self {
        case .image, .progress: true
        case .event, .reply: false
        }
    }
}

extension GetOptions {
    /// These options with a box.
    func fitting(width: Int?, height: Int?, fit: Transform.Fit?) -> GetOptions {
        if width == nil, height == nil, fit == nil { return self }
        var options = self
        if let width { options.variant.width = width }
        if let height { options.variant.height = height }
        if let fit { options.variant.fit = fit }
        return options
    }

    /// These options without those that only request frames before the final image, which stays the same.
    var withoutReports: GetOptions {
        if !progress, !progressive { return self }
        var options = self
        (options.progress, options.progressive) = (false, false)
        return options
    }
}
