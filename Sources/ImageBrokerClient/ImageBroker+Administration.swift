public import HTTPValues
public import IPCProtocol

// Requests of administrators, which are refused (`forbidden`) to others, and events.
extension ImageBroker {
    /// Empties a tier of the cache, or removes the entries that were not used for `olderThanSeconds`.
    ///
    /// - Returns: the number of originals removed, and the number of bytes of originals and variants.
    public func clear(
        _ tier: CacheTier = .all, olderThanSeconds: Int? = nil
    ) throws(ClientError) -> (removed: Int, bytes: Int) {
        try perform(.clear(tier, olderThanSeconds: olderThanSeconds))
    }

    /// Requests the list of recently failed URLs, or its entries for `url`; at most as many as fit into one frame.
    public func failedEntries(of url: SourceURL? = nil) throws(ClientError) -> [FailedEntry] {
        try perform(.failedEntries(of: url))
    }

    /// Removes `url`, or everything, from the list of recently failed URLs. Returns the number of entries removed.
    public func clearFailed(_ url: SourceURL? = nil) throws(ClientError) -> Int {
        try perform(.clearFailed(url))
    }

    /// Suspends new loads of all clients; hits are served.
    public func suspend() throws(ClientError) {
        try perform(.suspend)
    }

    /// Resumes loads.
    public func resume() throws(ClientError) {
        try perform(.resume)
    }

    /// Cancels all pending requests of all clients.
    public func cancelAll() throws(ClientError) {
        try perform(.cancelAll)
    }

    /// Has the broker read its settings again. Those that may change while it runs change at once; if one is wrong,
    /// none does, and the error is `bad-request`.
    public func reload() throws(ClientError) -> ReloadReport {
        try perform(.reload)
    }

    /// Has the installed program take the place of the running broker, which keeps its connections, leases and images
    /// in memory. If it cannot, the broker goes on as before.
    public func upgrade() throws(ClientError) {
        try perform(.upgrade)
    }

    // MARK: Events

    /// Subscribes to events until the connection ends: of this user's requests, for administrators of all requests.
    /// They are returned by `receive`, and queued until it is called.
    ///
    /// - Returns: the id of the subscription and of its events.
    @discardableResult
    public func subscribe(
        to events: Set<BrokerEvent.Name> = Set(BrokerEvent.Name.allCases)
    ) throws(ClientError) -> Int {
        let id = try send { .subscribe(id: $0, events: events) }
        switch try incoming(for: id) {
        case .reply(.ok): return id
        case .reply(.error(_, let error)): throw .refused(error)
        case .reply, .image, .progress, .event: throw Self.unexpected
        }
    }

    /// Subscribes and calls `handler` with each event until it returns false. Use a separate connection: replies to
    /// other requests are discarded meanwhile.
    ///
    /// - Throws: `ClientError`; `connectionLost` when the broker shuts down.
    public func follow(
        _ events: Set<BrokerEvent.Name> = Set(BrokerEvent.Name.allCases), _ handler: (BrokerEvent) -> Bool
    ) throws(ClientError) {
        let subscription = try subscribe(to: events)
        while true {
            if case .event(subscription, let event) = try receive(), !handler(event) { return }
        }
    }
}
