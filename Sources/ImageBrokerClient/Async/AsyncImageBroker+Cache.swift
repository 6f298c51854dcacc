internal import HTTPValues
public import IPCProtocol
public import LinuxSystem
public import SharedCache

// The cache: queries, prefetching, storing and removing. All methods throw `ClientError`, and `CancellationError` when
// the task is cancelled; a request of an administrator is refused to others with `forbidden`.
extension AsyncImageBroker {
    /// Queries whether the image at `url` is cached, in which tier, and whether it is fresh.
    nonisolated(nonsending) public func query(
        _ url: String, options: GetOptions = GetOptions()
    ) async throws -> CacheStatus {
        try await perform(.query(try Self.source(url), options))
    }

    /// Queries whether the image in a file is cached, in which tier.
    nonisolated(nonsending) public func query(
        _ file: FileDescriptor, options: GetOptions = GetOptions()
    ) async throws -> CacheStatus {
        try await perform(.query(file, options))
    }

    /// Loads images into the cache, at low priority unless `options` say otherwise, and waits for the last one.
    /// Continues after URLs that fail.
    ///
    /// - Parameters:
    ///   - urls: the URLs, in the order in which they are loaded.
    ///   - options: how to load them; the delivery has no effect, because no image is delivered.
    ///   - progress: called with the numbers of URLs loaded, failed and in all; not after every URL if they are loaded
    ///     fast.
    /// - Returns: the numbers of URLs loaded and failed.
    /// - Throws: `ClientError`: `refused` with `cancelled` when an administrator cancelled it; `CancellationError`.
    nonisolated(nonsending) public func prefetch(
        _ urls: [String], options: GetOptions = PrefetchRequest.defaultOptions,
        progress: ((_ done: Int, _ failed: Int, _ total: Int) -> Void)? = nil
    ) async throws -> (done: Int, failed: Int) {
        var (done, failed) = (0, 0)
        for part in PrefetchRequest.parts(of: try urls.map { try Self.source($0) }) {
            let updates = engine.submit { updates in
                Request({ .prefetch(PrefetchRequest(id: $0, urls: part, options: options)) }, updates: updates) {
                    switch $0 {
                    case .reply(.prefetched), .reply(.ok): true
                    default: false
                    }
                }
            }
            var last = (done: 0, failed: 0)
            var isComplete = false
            for try await case .reply(let reply) in updates {
                if case .prefetched(_, let partDone, let partFailed, _) = reply {
                    last = (partDone, partFailed)
                    progress?(done + partDone, failed + partFailed, urls.count)
                } else {
                    isComplete = true
                }
            }
            if !isComplete { throw CancellationError() }
            done += last.done
            failed += last.failed
        }
        return (done, failed)
    }

    /// Stores an image in the cache as if it had been loaded from `url`, and waits until it is validated. Later
    /// requests of this user for `url` get it; requests of all users when an administrator stores it.
    ///
    /// - Parameters:
    ///   - bytes: the encoded image; they are copied.
    ///   - url: the URL of the image.
    ///   - contentType: the stated media type; the format is detected from the bytes.
    /// - Throws: `ClientError`: `refused` when the bytes are not a valid image; `CancellationError`.
    nonisolated(nonsending) public func store(
        _ bytes: [UInt8], as url: String, contentType: String? = nil
    ) async throws {
        try await store(try SealedBuffer.copy(of: bytes).descriptor, as: url, contentType: contentType)
    }

    /// Stores an image like `store` of bytes, which are the content of a memfd or of a file on a tmpfs; other files are
    /// refused. The broker copies them before this returns, unless the memfd has all four seals.
    nonisolated(nonsending) public func store(
        _ file: FileDescriptor, as url: String, contentType: String? = nil
    ) async throws {
        try await perform(.store(file, as: try Self.source(url), contentType: contentType))
    }

    /// Stores pixels, which the sealed buffer contains as `pixels` describes, without a copy. Waits until requests find
    /// them: one in their form at full size gets this very buffer, others get variants made of it.
    ///
    /// - Parameters:
    ///   - pixels: the layout of the rows in `buffer`, which may have at most 64 KiB besides them.
    ///   - buffer: the memfd, with all four seals.
    ///   - url: the URL of the image.
    ///   - storage: whether the disk tier keeps them, too.
    /// - Throws: `ClientError`: `refused` with `bad-request` when the rows are not in the buffer; `CancellationError`.
    nonisolated(nonsending) public func store(
        pixels: StoredPixels, in buffer: SealedBuffer, as url: String, storage: StoreRequest.Storage = .memory
    ) async throws {
        try await perform(.store(pixels, in: buffer, as: try Self.source(url), storage))
    }

    /// Stores a copy of pixels: rows of `geometry` without padding.
    ///
    /// - Throws: `ClientError`: `refused` with `bad-request` when `bytes` are too few; `CancellationError`.
    nonisolated(nonsending) public func store(
        pixels bytes: [UInt8], _ geometry: PixelGeometry, _ pixelFormat: PixelFormat = .rgba8,
        _ alpha: AlphaMode = .premultiplied, as url: String, storage: StoreRequest.Storage = .memory
    ) async throws {
        let layout = StoredPixels(geometry, pixelFormat: pixelFormat, alpha: alpha)
        try await store(pixels: layout, in: try SealedBuffer.copy(of: bytes), as: url, storage: storage)
    }

    /// Removes `url` in all its variants from the cache. Returns the number of originals removed.
    nonisolated(nonsending) public func remove(_ url: String) async throws -> Int {
        try await perform(.remove(try Self.source(url)))
    }

    /// Removes all variants of the image in a file from the cache; the file stays. Returns the number of originals
    /// removed.
    nonisolated(nonsending) public func remove(_ file: FileDescriptor) async throws -> Int {
        try await perform(.remove(file))
    }

    // MARK: The broker

    /// Requests the broker's version and limits.
    nonisolated(nonsending) public func hello() async throws -> HelloReply { try await perform(.hello(client: nil)) }

    /// Requests the broker's figures.
    nonisolated(nonsending) public func stats() async throws -> StatsReport { try await perform(.stats) }

    // MARK: Requests of administrators

    /// Empties a tier of the cache, or removes the entries that were not used for `olderThanSeconds`.
    ///
    /// - Returns: the number of originals removed, and the number of bytes of originals and variants.
    nonisolated(nonsending) public func clear(
        _ tier: CacheTier = .all, olderThanSeconds: Int? = nil
    ) async throws -> (removed: Int, bytes: Int) {
        try await perform(.clear(tier, olderThanSeconds: olderThanSeconds))
    }

    /// Requests the list of recently failed URLs, or its entries for `url`; at most as many as fit into one frame.
    nonisolated(nonsending) public func failedEntries(of url: String? = nil) async throws -> [FailedEntry] {
        try await perform(.failedEntries(of: try url.map { try Self.source($0) }))
    }

    /// Removes `url`, or everything, from the list of recently failed URLs. Returns the number of entries removed.
    nonisolated(nonsending) public func clearFailed(_ url: String? = nil) async throws -> Int {
        try await perform(.clearFailed(try url.map { try Self.source($0) }))
    }

    /// Suspends new loads of all clients; hits are served.
    nonisolated(nonsending) public func suspend() async throws { try await perform(.suspend) }

    /// Resumes loads.
    nonisolated(nonsending) public func resume() async throws { try await perform(.resume) }

    /// Cancels all pending requests of all clients.
    nonisolated(nonsending) public func cancelAll() async throws { try await perform(.cancelAll) }

    /// Has the broker read its settings again. Those that may change while it runs change at once; if one is wrong,
    /// none does, and the error is `bad-request`.
    nonisolated(nonsending) public func reload() async throws -> ReloadReport { try await perform(.reload) }

    /// Has the installed program take the place of the running broker, which keeps its connections, leases and images
    /// in memory. If it cannot, the broker goes on as before.
    nonisolated(nonsending) public func upgrade() async throws { try await perform(.upgrade) }

    static func source(_ url: String) throws(ClientError) -> SourceURL {
        try ClientError.refusing { () throws(InvalidURL) in try SourceURL(url) }
    }
}
