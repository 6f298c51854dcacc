public import IPCProtocol
public import LinuxSystem

extension AsyncImageBroker {
    /// Loads the image at `url`, and reports on the way: progress, a cached image before it is revalidated, and the
    /// image as far as it has been downloaded. Each iterator of the sequence makes a request; breaking the loop cancels
    /// it.
    ///
    /// - Parameters:
    ///   - url: an `http` or `https` URL.
    ///   - options: the form of the image, and how to load it. `progressive` requests partial images; `staleFirst` with
    ///     `cache` = `noCache` requests a preview from the cache. Progress is always reported.
    /// - Returns: the updates, the last of which is `final`.
    public func load(_ url: String, options: GetOptions = GetOptions()) -> ImageUpdates {
        ImageUpdates(broker: self, source: .url(url), options: options)
    }

    /// Loads the image in a regular file that is open for reading, and reports its progress.
    ///
    /// - Parameters:
    ///   - file: the open file.
    ///   - name: the name in the broker's events, at most 255 bytes.
    ///   - options: as those of ``image(atPath:width:height:fit:options:)``.
    /// - Returns: the updates, the last of which is `final`.
    public func load(_ file: FileDescriptor, name: String? = nil, options: GetOptions = GetOptions()) -> ImageUpdates {
        ImageUpdates(broker: self, source: .file(file, name: name), options: options)
    }
}

/// A step on the way to an image.
public enum ImageUpdate: Sendable {
    /// The number of bytes downloaded so far, and their total if it is known.
    case progress(received: Int, expected: Int?)
    /// The cached image, fresh or stale, before it is revalidated.
    case preview(BrokerImage)
    /// The image as far as it has been downloaded. Release it when it is no longer shown: it has a lease of its own.
    case partial(BrokerImage)
    /// The image: the last update.
    case final(BrokerImage)
}

/// The updates of one image. If the loop is slower than the broker, it misses older updates, never the last one.
///
/// Iterating throws `ClientError`, and `CancellationError` when the task is cancelled.
public struct ImageUpdates: AsyncSequence, Sendable {
    enum Source: Sendable {
        case url(String)
        case file(FileDescriptor, name: String?)
    }

    let broker: AsyncImageBroker
    let source: Source
    let options: GetOptions
    private let requests = PendingRequests()

    init(broker: AsyncImageBroker, source: Source, options: GetOptions) {
        (self.broker, self.source, self.options) = (broker, source, options)
    }

    /// Changes the priority of the requests of its iterators, as far as they are pending: of an image that comes into
    /// view, for example. Needs the addition `update`.
    public func setPriority(_ priority: GetOptions.Priority) {
        broker.engine.change(requests.all, priority: priority, detach: false)
    }

    /// Lets the downloads of its iterators, as far as they are pending, go on for the cache when the loops are broken
    /// or the broker's client is released. Needs the addition `update`.
    public func detach() { broker.engine.change(requests.all, priority: nil, detach: true) }

    /// Makes the request with the first call of `next`.
    public func makeAsyncIterator() -> Iterator { Iterator(sequence: self) }

    /// Waits for the updates of one request, which is cancelled when the iterator is released.
    public struct Iterator: AsyncIteratorProtocol {
        private let sequence: ImageUpdates
        private var updates: Updates.AsyncIterator?
        private var isAtEnd = false

        fileprivate init(sequence: ImageUpdates) { self.sequence = sequence }

        /// Returns the next update; nil after the final one.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws -> ImageUpdate? {
            if isAtEnd { return nil }
            do {
                let update = try await update(isolation: actor)
                if case .final = update { isAtEnd = true }
                return update
            } catch {
                isAtEnd = true
                throw error
            }
        }

        private mutating func update(isolation actor: isolated (any Actor)?) async throws -> ImageUpdate {
            if updates == nil {
                if let image = sequence.keptImage { return .final(image) }
                updates = try sequence.request().makeAsyncIterator()
            }
            guard let incoming = try await updates?.next(isolation: actor) else { throw CancellationError() }
            switch incoming {
            case .progress(_, let received, let expected): return .progress(received: received, expected: expected)
            case .image(_, let image) where image.reply.final: return .final(image)
            // A preview comes from the cache.
            case .image(_, let image): return image.reply.source == .network ? .partial(image) : .preview(image)
            case .event, .reply: throw ImageBroker.unexpected
            }
        }
    }

    private var keptImage: BrokerImage? {
        guard case .url(let url) = source, !options.staleFirst else { return nil }
        return broker.engine.keptImage(at: url, options.withoutReports)
    }

    private func request() throws -> Updates {
        var options = options
        options.progress = true
        switch source {
        case .url(let url): return try broker.get(url, options, noting: requests)
        case .file(let file, let name): return try broker.get(file, name, options, noting: requests)
        }
    }
}
