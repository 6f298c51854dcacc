import HTTPValues
import IPCProtocol
package import SystemValues

// The process that takes the broker's place: what it is handed, and what it makes of that.
extension BrokerState {
    mutating func upgradeEnded(_ client: ClientID, id: Int, _ error: WireError?) {
        clients.ended(id, of: client)
        if let error { reject(id, of: client, with: error) } else { reply(.ok(id: id), to: client) }
    }

    /// Whether anything is unfinished besides the request for an upgrade.
    package func isUnfinished(besides requester: (client: ClientID, id: Int)) -> Bool {
        !requests.isEmpty || !requests.prefetchIDsInOrder.isEmpty || !disk.isIdle
            || !clients.withOthers(besides: requester).isEmpty
    }

    /// The clients whose requests came with bytes or descriptors, or change something.
    package func unrepeatable(besides requester: (client: ClientID, id: Int)) -> Set<ClientID> {
        let waiters = requests.ids.compactMap { requests[$0] }
        return clients.withOthers(besides: requester).union(waiters.filter(\.bringsBytes).map(\.client))
    }

    package func pendingWeight(of client: ClientID) -> Int { clients[client]?.weight ?? 0 }

    /// Ends all requests of a client that is not handed over, and its connection, as at a shutdown.
    mutating func clientLeftBehind(_ client: ClientID) {
        guard let known = clients[client] else { return }
        let error = WireError(.shuttingDown, "The broker was upgraded meanwhile.")
        if known.requests.isEmpty { reject(nil, of: client, with: error) }
        for id in known.prefetches { failPrefetch(id, error) }
        for id in known.gets + known.stores.sorted() { leaveJobAndFail(id, error) }
        for id in known.others where clients.ended(id, of: client) { reject(id, of: client, with: error) }
        actions.append(.close(client))
    }

    // MARK: Handing over

    /// The images in memory, and what else outlasts this process. Of buffers only those with at least so many bytes.
    package func kept(atLeast least: Int = 0) -> KeptState {
        var state = KeptState()
        state.lastBuffer = bufferIDs.last
        if least == 0 { (state.segments, state.lastSegment) = (memory.segments.all, memory.segments.last) }
        state.isSuspended = isSuspended
        state.contents = memory.kept(atLeast: least, at: now.instant)
        return state
    }

    /// A client's leases and subscriptions, and as input its requests that are to be made once more.
    package func kept(_ client: ClientID, descriptor: Int) -> KeptClient {
        var kept = KeptClient(descriptor: descriptor)
        kept.holds = clients.kept(of: client)
        guard let connected = clients[client] else { return kept }
        kept.subscriptions = connected.subscriptions.map {
            KeptClient.Subscription(id: $0.id, events: $0.events.map(\.rawValue).sorted())
        }
        kept.detached = connected.detached.sorted()
        (kept.mapsSegments, kept.segments) = (connected.segmentOwner != nil, clients.keptSegments(of: client))
        kept.namespace = connected.segmentOwner?.namespace
        kept.program = connected.program?.rawValue
        for waiter in connected.gets.compactMap({ requests[$0] }) {
            var request = waiter.request
            request.options = request.options.asRequested
            if waiter.preview == .done { request.options.staleFirst = false }
            kept.input += (try? ClientMessage.get(request).encoded()) ?? []
        }
        for prefetch in connected.prefetches.compactMap({ requests[$0] }) {
            let running = prefetch.running.sorted().compactMap { requests[$0]?.request.url }
            let request = PrefetchRequest(
                id: prefetch.request, urls: running + prefetch.remaining, options: prefetch.options.asRequested)
            kept.input += (try? ClientMessage.prefetch(request).encoded()) ?? []
        }
        return kept
    }

    // MARK: Taking over

    /// Takes over the images of another process, before the first event. Returns the buffers that are needed; what
    /// contradicts itself is left out. Numbers of buffers go on after the other's, and `skipping` more.
    package mutating func restore(
        _ state: KeptState, skipping: Int = 0, at time: Instant, unixMs: Int
    ) -> Set<BufferID> {
        now = Moment(instant: time, unixMs: unixMs)
        bufferIDs = IdentifierSource(after: state.lastBuffer + skipping)
        isSuspended = state.isSuspended
        memory.restore(state.segments, last: state.lastSegment)
        for content in state.contents { restore(content, before: state.lastBuffer) }
        memory.endSlots()
        return Set(memory.bufferIDs)
    }

    /// Ends segments of the other process that have no images, once its clients are restored, which are told of it.
    package mutating func endEmptySegments() { memory.endEmptySegments() }

    /// The bytes of all restored images, which no sum of theirs overflows.
    private static let mostRestoredBytes = 1 << 50

    private mutating func restore(_ kept: KeptContent, before last: Int) {
        guard let content = kept.key, !memory.isKnown(content) else { return }
        var known: Set<OriginalKey> = []
        let keys = kept.originals.compactMap { original -> (key: OriginalKey, original: OriginalFacts)? in
            guard let key = original.key, memory.original(key) == nil, known.insert(key).inserted else { return nil }
            let statement = statement(original.response, for: key, varyKey: original.varyKey)
            return (
                key,
                OriginalFacts(
                    content: content, bytes: kept.bytes, origin: statement, isFromDisk: original.isFromDisk,
                    isOnDisk: original.isOnDisk, staysOffDisk: original.staysOffDisk)
            )
        }
        var (numbers, forms): (Set<Int>, Set<Form>) = ([], [])
        let buffers = kept.buffers.filter { buffer in
            (1...max(last, 1)).contains(buffer.number)
                && memory.record(of: BufferID(number: buffer.number)) == nil
                && buffer.bytes <= Self.mostRestoredBytes - memory.residentBytes
                && numbers.insert(buffer.number).inserted
                && forms.insert(buffer.form).inserted && !VariantKey(content: content, form: buffer.form).isOriginal
        }
        guard let first = keys.first, !buffers.isEmpty else { return }
        _ = memory.restore(first.original, kept.header, keys, buffers, at: now.instant)
    }

    package mutating func restore(_ kept: KeptClient, of client: ClientID) {
        // Also if this process makes no segments: the client has those of the other.
        if kept.mapsSegments { clients.mapsSegments(client, in: kept.namespace) }
        clients.states(client, program: kept.program.flatMap(StatsReport.Program.init(rawValue:)))
        for segment in kept.segments { clients.restore(segment, of: client) }
        for hold in kept.holds where clients.restore(hold, of: client) {
            memory.hold(BufferID(number: hold.buffer), bytes: hold.bytes)
        }
        for request in kept.detached { clients.detach(request, of: client) }
        for subscription in kept.subscriptions {
            let events = Set(subscription.events.compactMap(BrokerEvent.Name.init(rawValue:)))
            _ = clients.subscribe(client, to: events, id: subscription.id)
        }
        memory.notesEvictions = clients.hasSubscribers
    }
}

extension GetOptions {
    /// The options as a client has stated them: a preset's name, without the variant that took its place.
    fileprivate var asRequested: GetOptions {
        var options = self
        if preset != nil { options.variant = Variant() }
        return options
    }
}
