public import IPCProtocol

extension AsyncImageBroker {
    /// Subscribes to events of this user's requests, for administrators of all requests. They come over a connection of
    /// their own, which is closed when the iterator and the sequence are released.
    ///
    /// - Parameters:
    ///   - names: the kinds of events.
    ///   - limit: the number of events that are kept for a slow loop, at least one; older ones are dropped.
    /// - Returns: the events from now on.
    nonisolated(nonsending) public func events(
        _ names: Set<BrokerEvent.Name> = Set(BrokerEvent.Name.allCases), keepingNewest limit: Int = 1024
    ) async throws -> BrokerEvents {
        try Task.checkCancellation()
        let connection = AsyncImageBroker(path: path, keeping: nil)
        let updates = connection.engine.submit(limit: max(limit, 1)) { updates in
            Request(
                { .subscribe(id: $0, events: names) }, isRepeatable: false, isSubscription: true, updates: updates
            ) {
                switch $0 {
                case .reply(.ok), .event: true
                default: false
                }
            }
        }
        var iterator = updates.makeAsyncIterator()
        guard try await iterator.next(isolation: #isolation) != nil else { throw CancellationError() }
        return BrokerEvents(connection: connection, updates: updates)
    }
}

/// Events of the broker, for one loop. It throws `ClientError.connectionLost` when the broker shuts down, and
/// `CancellationError` when the task is cancelled.
public struct BrokerEvents: AsyncSequence, Sendable {
    fileprivate let connection: AsyncImageBroker
    fileprivate let updates: Updates

    /// Returns an iterator; all iterators of a sequence share its events.
    public func makeAsyncIterator() -> Iterator { Iterator(connection, updates.makeAsyncIterator()) }

    /// Waits for events.
    public struct Iterator: AsyncIteratorProtocol {
        private let connection: AsyncImageBroker
        private var updates: Updates.AsyncIterator

        fileprivate init(_ connection: AsyncImageBroker, _ updates: Updates.AsyncIterator) {
            (self.connection, self.updates) = (connection, updates)
        }

        /// Returns the next event.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws -> BrokerEvent? {
            while let incoming = try await updates.next(isolation: actor) {
                if case .event(_, let event) = incoming { return event }
            }
            throw CancellationError()
        }
    }
}
