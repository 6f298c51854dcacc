public import HTTPValues
public import IPCProtocol
public import LinuxSystem
public import SharedCache

// What is cached: looking, loading ahead, giving, forgetting.
extension ImageBroker {
    /// Whether the picture at `url` is cached, in which tier, and whether it is fresh.
    ///
    /// - Throws: `ClientError`.
    public func query(
        _ url: SourceURL, _ options: GetOptions = GetOptions()
    ) throws(ClientError) -> CacheStatus {
        let reply = try ask { .query(GetRequest(id: $0, url: url, options: options)) }
        guard case .queried(_, let status) = reply else { throw Self.unexpected }
        return status
    }

    /// Loads pictures into the cache, at low priority unless `options` say otherwise, and waits for the last one. A URL
    /// that fails does not end it. However many there are, each message to the broker has 1,000 at most.
    ///
    /// - Parameters:
    ///   - urls: what to load, in this order.
    ///   - options: how; the delivery means nothing, as none comes.
    ///   - progress: is told after each URL how many are loaded, how many have failed, and how many there are.
    /// - Returns: how many were loaded, and how many have failed.
    /// - Throws: `ClientError`; `refused` with `cancelled` when somebody has ended it.
    public func prefetch(
        _ urls: [SourceURL], _ options: GetOptions = PrefetchRequest.defaultOptions,
        progress: ((_ done: Int, _ failed: Int, _ total: Int) -> Void)? = nil
    ) throws(ClientError) -> (done: Int, failed: Int) {
        var (done, failed) = (0, 0)
        var left = urls[...]
        while !left.isEmpty {
            let part = left.prefix(Self.prefixOfOneFrame(left))
            left = left.dropFirst(part.count)
            let id = try send { .prefetch(PrefetchRequest(id: $0, urls: Array(part), options: options)) }
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

    /// How many of the URLs go into one frame, with room for whatever options there are.
    private static func prefixOfOneFrame(_ urls: ArraySlice<SourceURL>) -> Int {
        var (count, bytes) = (0, 0)
        for url in urls.prefix(PrefetchRequest.maximumURLs) {
            bytes += url.text.utf8.count + 3
            if bytes > Frame.maximumLength / 2, count > 0 { break }
            count += 1
        }
        return count
    }

    /// Gives the cache a picture as if it had been loaded from `url`, and waits until it is decoded and believed. Later
    /// requests for `url` get it: this user's, or everybody's when an administrator gives it.
    ///
    /// - Parameters:
    ///   - bytes: the encoded picture; they are copied.
    ///   - url: under which it is to be found.
    ///   - contentType: what it is said to be; what it is is looked at.
    /// - Throws: `ClientError`; `refused` with the reason for which it is no picture.
    public func store(_ bytes: [UInt8], as url: SourceURL, contentType: String? = nil) throws(ClientError) {
        let buffer: SealedBuffer
        do throws(SystemError) {
            let writable = try WritableBuffer(name: "imgbroker-client")
            var result: Result<Void, SystemError> = .success(())
            unsafe bytes.withUnsafeBytes { bytes in
                result = Result { () throws(SystemError) in
                    unsafe try writable.descriptor.write(bytes, at: 0)
                }
            }
            try result.get()
            buffer = try writable.seal()
        } catch {
            throw .system(error)
        }
        try store(buffer, as: url, contentType: contentType)
    }

    /// As `store` of bytes; the broker uses the sealed buffer as it is, without a copy.
    ///
    /// - Throws: `ClientError`.
    public func store(_ buffer: SealedBuffer, as url: SourceURL, contentType: String? = nil) throws(ClientError) {
        try store(buffer.descriptor, as: url, contentType: contentType)
    }

    /// As `store` of bytes; they are all of a memfd or of a file of a tmpfs. The broker copies them before this returns,
    /// unless all four seals are there. Files elsewhere are refused.
    ///
    /// - Throws: `ClientError`.
    public func store(_ file: FileDescriptor, as url: SourceURL, contentType: String? = nil) throws(ClientError) {
        try tell(descriptors: [file]) {
            .store(StoreRequest(id: $0, url: url, contentType: contentType, payload: 0))
        }
    }

    /// Makes the broker forget `url` in all its variants; returns how many originals it forgot.
    ///
    /// - Throws: `ClientError`.
    public func remove(_ url: SourceURL) throws(ClientError) -> Int {
        guard case .removed(_, let count) = try ask({ .remove(id: $0, url: url) }) else { throw Self.unexpected }
        return count
    }
}
