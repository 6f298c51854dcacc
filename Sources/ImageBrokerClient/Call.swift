internal import HTTPValues
internal import IPCProtocol
internal import LinuxSystem
internal import SharedCache

/// A request with one reply, for both clients.
struct Call<Value: Sendable>: Sendable {
    /// The descriptors that are sent with the message.
    var descriptors: [FileDescriptor] = []
    /// Makes the message with an id.
    let message: @Sendable (Int) -> ClientMessage
    /// Returns what the reply says; nil for a reply of another kind.
    let value: @Sendable (Reply) -> Value?
}

extension Call where Value == HelloReply {
    static func hello(client: String?, validity: Bool = false) -> Self {
        Call(
            message: { .hello(id: $0, client: client, validity: validity, segments: true) },
            value: { if case .hello(_, let hello) = $0 { hello } else { nil } })
    }
}

extension Call where Value == StatsReport {
    static var stats: Self {
        Call(message: { .stats(id: $0) }, value: { if case .stats(_, let report) = $0 { report } else { nil } })
    }
}

extension Call where Value == CacheStatus {
    static func query(_ url: SourceURL, _ options: GetOptions) -> Self {
        query { GetRequest(id: $0, url: url, options: options) }
    }

    static func query(_ file: FileDescriptor, _ options: GetOptions) -> Self {
        query([file]) { GetRequest(id: $0, file: LocalFile(), options: options) }
    }

    private static func query(
        _ descriptors: [FileDescriptor] = [], _ request: @escaping @Sendable (Int) -> GetRequest
    ) -> Self {
        Call(
            descriptors: descriptors, message: { .query(request($0)) },
            value: { if case .queried(_, let status) = $0 { status } else { nil } })
    }
}

extension Call where Value == Int {
    static func remove(_ url: SourceURL) -> Self { removal { .remove(id: $0, url: url) } }

    static func remove(_ file: FileDescriptor) -> Self { removal([file]) { .removeFile(id: $0, file: LocalFile()) } }

    static func clearFailed(_ url: SourceURL?) -> Self { removal { .failedClear(id: $0, url: url) } }

    private static func removal(
        _ descriptors: [FileDescriptor] = [], _ message: @escaping @Sendable (Int) -> ClientMessage
    ) -> Self {
        Call(
            descriptors: descriptors, message: message,
            value: { if case .removed(_, let count) = $0 { count } else { nil } })
    }
}

extension Call where Value == (removed: Int, bytes: Int) {
    static func clear(_ tier: CacheTier, olderThanSeconds: Int?) -> Self {
        Call(
            message: { .clear(id: $0, tier: tier, olderThanSeconds: olderThanSeconds) },
            value: { if case .cleared(_, let removed, let bytes) = $0 { (removed, bytes) } else { nil } })
    }
}

extension Call where Value == [FailedEntry] {
    static func failedEntries(of url: SourceURL?) -> Self {
        Call(
            message: { .failedList(id: $0, url: url) },
            value: { if case .failedEntries(_, let entries) = $0 { entries } else { nil } })
    }
}

extension Call where Value == ReloadReport {
    static var reload: Self {
        Call(message: { .reload(id: $0) }, value: { if case .reloaded(_, let report) = $0 { report } else { nil } })
    }
}

extension Call where Value == Void {
    static func update(_ request: Int, priority: GetOptions.Priority?, detach: Bool) -> Self {
        order { .update(id: $0, request: request, priority: priority, detach: detach) }
    }

    static var suspend: Self { order { .suspend(id: $0) } }
    static var resume: Self { order { .resume(id: $0) } }
    static var cancelAll: Self { order { .cancelAll(id: $0) } }
    static var upgrade: Self { order { .upgrade(id: $0) } }

    /// Stores the encoded image in a file.
    static func store(_ file: FileDescriptor, as url: SourceURL, contentType: String?) -> Self {
        order([file]) { .store(StoreRequest(id: $0, url: url, contentType: contentType, payload: 0)) }
    }

    /// Stores rows of pixels in a sealed buffer.
    static func store(
        _ pixels: StoredPixels, in buffer: SealedBuffer, as url: SourceURL, _ storage: StoreRequest.Storage
    ) -> Self {
        order([buffer.descriptor]) { .store(StoreRequest(id: $0, url: url, pixels: pixels, storage: storage)) }
    }

    private static func order(
        _ descriptors: [FileDescriptor] = [], _ message: @escaping @Sendable (Int) -> ClientMessage
    ) -> Self {
        Call(descriptors: descriptors, message: message, value: { if case .ok = $0 { () } else { nil } })
    }
}

extension SealedBuffer {
    /// Makes a sealed copy of bytes, of which the broker knows that they do not change.
    package static func copy(of bytes: some Collection<UInt8>) throws(ClientError) -> SealedBuffer {
        do throws(SystemError) {
            let copy = { (bytes: UnsafeRawBufferPointer) throws(SystemError) in
                try unsafe SealedBuffer(copying: bytes, name: "imgbroker-client")
            }
            // Bytes that lie in one piece need no copy besides.
            let copied = bytes.withContiguousStorageIfAvailable { storage in
                Result { () throws(SystemError) in unsafe try copy(UnsafeRawBufferPointer(storage)) }
            }
            if let copied { return try copied.get() }
            return unsafe try Array(bytes).span.withUnsafeBytes(copy)
        } catch {
            throw .system(error)
        }
    }
}

extension ClientError {
    /// Calls `body`, and turns the error of a text that is no URL of an image into `refused`.
    static func refusing<Value>(_ body: () throws(InvalidURL) -> Value) throws(ClientError) -> Value {
        do { return try body() } catch { throw .refused(WireError(error)) }
    }
}
