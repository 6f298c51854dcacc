public import HTTPValues
public import IPCProtocol

// What administrators do, and events. Everything but events is refused (`forbidden`) to others.
extension ImageBroker {
    /// Empties a tier of the cache, or removes from it what was not used for so many seconds.
    ///
    /// - Returns: how many originals of each tier were removed, and bytes with what was made of them.
    /// - Throws: `ClientError`.
    public func clear(
        _ tier: CacheTier = .all, olderThanSeconds: Int? = nil
    ) throws(ClientError) -> (removed: Int, bytes: Int) {
        let reply = try ask { .clear(id: $0, tier: tier, olderThanSeconds: olderThanSeconds) }
        guard case .cleared(_, let removed, let bytes) = reply else { throw Self.unexpected }
        return (removed, bytes)
    }

    /// What is not tried again for now, by URL; with `url`, only what the list says of that. As much as one frame holds.
    ///
    /// - Throws: `ClientError`.
    public func failedEntries(of url: SourceURL? = nil) throws(ClientError) -> [FailedEntry] {
        guard case .failedEntries(_, let entries) = try ask({ .failedList(id: $0, url: url) }) else {
            throw Self.unexpected
        }
        return entries
    }

    /// Takes `url`, or everything, off the failed list; returns how many entries that were.
    ///
    /// - Throws: `ClientError`.
    public func clearFailed(_ url: SourceURL? = nil) throws(ClientError) -> Int {
        guard case .removed(_, let count) = try ask({ .failedClear(id: $0, url: url) }) else { throw Self.unexpected }
        return count
    }

    /// Lets new loads of all clients wait; hits are served.
    ///
    /// - Throws: `ClientError`.
    public func suspend() throws(ClientError) {
        try tell { .suspend(id: $0) }
    }

    /// Lets loads go on.
    ///
    /// - Throws: `ClientError`.
    public func resume() throws(ClientError) {
        try tell { .resume(id: $0) }
    }

    /// Ends all pending requests of all clients with `cancelled`.
    ///
    /// - Throws: `ClientError`.
    public func cancelAll() throws(ClientError) {
        try tell { .cancelAll(id: $0) }
    }

    // MARK: Events

    /// Asks for events, until the connection ends: about this user's requests, for administrators about all. They come
    /// through `receive`, and pile up until that is called.
    ///
    /// - Returns: the subscription's id, which its events carry.
    /// - Throws: `ClientError`.
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

    /// Subscribes and hands each event to `handler`, until that returns false. Best on a connection of its own: what other
    /// requests of this one are answered meanwhile is not kept.
    ///
    /// - Throws: `ClientError`; `connectionLost` when the broker ends.
    public func follow(
        _ events: Set<BrokerEvent.Name> = Set(BrokerEvent.Name.allCases), _ handler: (BrokerEvent) -> Bool
    ) throws(ClientError) {
        let subscription = try subscribe(to: events)
        while true {
            if case .event(subscription, let event) = try receive(), !handler(event) { return }
        }
    }
}
