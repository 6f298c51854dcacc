public import HTTPValues
public import IPCProtocol
public import LinuxSystem
public import SharedCache

// The cache: queries, prefetching, storing and removing.
extension ImageBroker {
    /// Queries whether the image at `url` is cached, in which tier, and whether it is fresh.
    public func query(
        _ url: SourceURL, _ options: GetOptions = GetOptions()
    ) throws(ClientError) -> CacheStatus {
        try perform(.query(url, options))
    }

    /// Loads images into the cache, at low priority unless `options` say otherwise, and waits for the last one.
    /// Continues after URLs that fail. Sends the URLs in several messages if they exceed the limits of one.
    ///
    /// - Parameters:
    ///   - urls: the URLs, in the order in which they are loaded.
    ///   - options: how to load them; the delivery has no effect, because no image is delivered.
    ///   - progress: called after each URL with the numbers of URLs loaded, failed and in all.
    /// - Returns: the numbers of URLs loaded and failed.
    /// - Throws: `ClientError`; `refused` with `cancelled` when an administrator cancelled it.
    public func prefetch(
        _ urls: [SourceURL], _ options: GetOptions = PrefetchRequest.defaultOptions,
        progress: ((_ done: Int, _ failed: Int, _ total: Int) -> Void)? = nil
    ) throws(ClientError) -> (done: Int, failed: Int) {
        var (done, failed) = (0, 0)
        for part in PrefetchRequest.parts(of: urls) {
            let id = try send { .prefetch(PrefetchRequest(id: $0, urls: part, options: options)) }
            var last = (done: 0, failed: 0)
            wait: while true {
                switch try incoming(for: id) {
                case .reply(.prefetched(_, let partDone, let partFailed, _)):
                    last = (partDone, partFailed)
                    progress?(done + partDone, failed + partFailed, urls.count)
                case .reply(.ok): break wait
                case .reply(.error(_, let error)): throw .refused(error)
                case .reply, .image, .progress, .event: throw Self.unexpected
                }
            }
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
    /// - Throws: `ClientError`; `refused` when the bytes are not a valid image.
    public func store(_ bytes: [UInt8], as url: SourceURL, contentType: String? = nil) throws(ClientError) {
        try store(try SealedBuffer.copy(of: bytes), as: url, contentType: contentType)
    }

    /// Stores an image like `store` of bytes, without a copy of the sealed buffer.
    public func store(_ buffer: SealedBuffer, as url: SourceURL, contentType: String? = nil) throws(ClientError) {
        try store(buffer.descriptor, as: url, contentType: contentType)
    }

    /// Stores an image like `store` of bytes, which are the content of a memfd or of a file on a tmpfs; other files are
    /// refused. The broker copies them before this returns, unless the memfd has all four seals.
    public func store(_ file: FileDescriptor, as url: SourceURL, contentType: String? = nil) throws(ClientError) {
        try perform(.store(file, as: url, contentType: contentType))
    }

    /// Stores pixels, which the sealed buffer contains as `pixels` describes, without a copy. Waits until requests find
    /// them: one in their form at full size gets this very buffer, others get variants made of it.
    ///
    /// - Parameters:
    ///   - pixels: the layout of the rows in `buffer`, which may have at most 64 KiB besides them.
    ///   - buffer: the memfd, with all four seals.
    ///   - url: the URL of the image.
    ///   - storage: whether the disk tier keeps them, too.
    /// - Throws: `ClientError`; `refused` with `bad-request` when the rows are not in the buffer.
    public func store(
        pixels: StoredPixels, in buffer: SealedBuffer, as url: SourceURL, storage: StoreRequest.Storage = .memory
    ) throws(ClientError) {
        try perform(.store(pixels, in: buffer, as: url, storage))
    }

    /// Stores a copy of pixels: rows of `geometry` without padding.
    ///
    /// - Throws: `ClientError`; `refused` with `bad-request` when `bytes` are too few.
    public func store(
        pixels bytes: [UInt8], _ geometry: PixelGeometry, _ pixelFormat: PixelFormat = .rgba8,
        _ alpha: AlphaMode = .premultiplied, as url: SourceURL, storage: StoreRequest.Storage = .memory
    ) throws(ClientError) {
        let layout = StoredPixels(geometry, pixelFormat: pixelFormat, alpha: alpha)
        try store(pixels: layout, in: try SealedBuffer.copy(of: bytes), as: url, storage: storage)
    }

    /// Removes `url` in all its variants from the cache. Returns the number of originals removed.
    public func remove(_ url: SourceURL) throws(ClientError) -> Int {
        try perform(.remove(url))
    }
}

extension PrefetchRequest {
    /// Divides URLs into parts that the broker accepts in one request each.
    static func parts(of urls: [SourceURL]) -> [[SourceURL]] {
        var parts: [[SourceURL]] = []
        var bytes = 0
        for url in urls {
            bytes += url.text.utf8.count
            if parts.isEmpty || parts[parts.count - 1].count == maximumURLs || bytes > maximumBytes {
                parts.append([])
                bytes = url.text.utf8.count
            }
            parts[parts.count - 1].append(url)
        }
        return parts
    }
}
