import HTTPValues
import IPCProtocol

// How much of what all clients share each of them may have.
extension BrokerState {
    // MARK: Connections and subscriptions

    mutating func clientConnected(_ client: ClientID, uid: UInt32, isAdmin: Bool) {
        // A connection is a client, which has no other: only its user's share counts, and an administrator has no such.
        let refusal = connectionPool.refusal(of: 1, own: 0, user: uid, isAdmin: isAdmin)
        if let refusal, !isAdmin || connectionPool.taken >= connectionPool.limit {
            let message = "This user has \(connectionPool.taken(by: uid)) connections of \(connectionPool.taken)."
            reject(nil, of: client, with: error(refusal, message))
            return actions.append(.close(client))
        }
        connectionPool.take(1, for: uid)
        clients[client] = Client(uid: uid, isAdmin: isAdmin)
    }

    /// Notes that a connection of a user stays open though its client goes: it takes a place as before, so that nobody gets
    /// more than its share by leaving and coming again.
    mutating func connectionLeft(of uid: UInt32) { connectionPool.take(1, for: uid) }

    /// Notes that such a connection is closed.
    mutating func connectionClosed(of uid: UInt32) { connectionPool.give(1, from: uid) }

    func refusal(ofSubscription client: Client) -> WireError? {
        let own = client.subscriptions.count
        if own >= 8 { return WireError(.quotaExceeded, "A client may subscribe 8 times.") }
        let refusal = subscriptionPool.refusal(of: 1, own: own, user: client.uid, isAdmin: client.isAdmin)
        return refusal.map { error($0, "\(subscriptionPool.taken) subscriptions are open already.") }
    }

    private func error(_ refusal: SharedPool.Refusal, _ message: String) -> WireError {
        WireError(refusal == .share ? .quotaExceeded : .overloaded, message)
    }

    // MARK: Requests

    /// So many requests a client may always have, unless nobody may begin any more.
    static let guaranteedRequests = 256

    /// Why a client may not ask for something that takes a while; nil when it may.
    func refusal(ofWeight weight: Int, from client: Client) -> WireError? {
        let unanswered = client.unanswered
        if unanswered >= limits.maxPendingRequests {
            return WireError(.quotaExceeded, "\(unanswered) requests of this client are pending already.")
        }
        switch requestPool.refusal(of: weight, own: client.weight, user: client.uid, isAdmin: client.isAdmin) {
        case nil: return nil
        case .share where unanswered >= Self.guaranteedRequests || requestPool.taken(by: client.uid) > client.weight:
            return WireError(.quotaExceeded, "Too many requests of this client, or of its user, are pending already.")
        case .share, .exhausted:
            return WireError(.overloaded, "Too many requests are pending already.")
        }
    }

    mutating func takeWeight(_ weight: Int, of client: ClientID) {
        guard let uid = clients[client]?.uid else { return }
        clients[client]?.weight += weight
        requestPool.take(weight, for: uid)
    }

    mutating func giveWeight(_ weight: Int, of client: ClientID) {
        guard let uid = clients[client]?.uid else { return }
        clients[client]?.weight -= weight
        requestPool.give(weight, from: uid)
    }

    /// Notes that a request is unanswered that is neither a `get` nor a `prefetch`.
    mutating func beginErrand(_ id: Int, of client: ClientID) {
        if clients[client]?.errands.insert(id).inserted == true { takeWeight(1, of: client) }
    }

    /// Whether it was.
    mutating func endErrand(_ id: Int, of client: ClientID) -> Bool {
        guard clients[client]?.errands.remove(id) != nil else { return false }
        giveWeight(1, of: client)
        return true
    }

    // MARK: Buffers

    /// Why a client may not hold one more buffer; nil when it may. What it holds counts in full, evicted or not; what it
    /// may hold depends on what everybody keeps from being freed.
    func refusal(ofHolding bytes: Int, _ client: ClientID, _ uid: UInt32) -> WireError? {
        let (leased, sending) = (leases.held(by: client), sendings.held(by: client))
        let own = leased + sending
        let left = (
            bytes: limits.maxEvictedBytes - index.evictedBytes,
            buffers: limits.maxEvictedBuffers - (index.buffers.count - index.entries)
        )
        // Whoever has nothing is served as long as anything is left, be it less than this.
        if own.buffers == 0 {
            if left.bytes <= 0 || left.buffers <= 0 {
                return WireError(.overloaded, "\(index.evictedBytes) bytes are leased beside what is cached.")
            }
        } else if leased.bytes + bytes > limits.maxLeasedBytes || leased.buffers >= limits.maxLeasedBuffers
            || !Self.permits(bytes, own, left, FairShare.ofClient)
        {
            let message = "This client holds \(own.buffers) buffers with \(own.bytes) bytes already."
            return WireError(.quotaExceeded, message)
        }
        if clients[client]?.isAdmin != false { return nil }
        let users = leases.held(byUser: uid) + sendings.held(byUser: uid)
        if users.buffers == 0 || Self.permits(bytes, users, left, FairShare.ofUser) { return nil }
        let message = "This user's clients hold \(users.buffers) buffers with \(users.bytes) bytes already."
        return WireError(.quotaExceeded, message)
    }

    private static func permits(
        _ bytes: Int, _ own: LeaseTable.Amount, _ left: (bytes: Int, buffers: Int), _ multiple: Int
    ) -> Bool {
        FairShare.permits(bytes, own: own.bytes, left: left.bytes, multiple)
            && FairShare.permits(1, own: own.buffers, left: left.buffers, multiple)
    }

    // MARK: Invariants

    /// What does not add up; nil when all does.
    func brokenBound() -> String? {
        let users = Set(clients.values.map(\.uid))
        for (pool, name, amount) in [
            (connectionPool, "connections", { (_: Client) in 1 }),
            (requestPool, "requests", { (client: Client) in client.weight }),
            (subscriptionPool, "subscriptions", { (client: Client) in client.subscriptions.count }),
        ] {
            if pool.taken != clients.values.reduce(0, { $0 + amount($1) }) { return "pool of \(name)" }
            if pool.taken != users.reduce(0, { $0 + pool.taken(by: $1) }) { return "pool of users' \(name)" }
            if pool.taken > pool.limit { return "more \(name) than there may be" }
        }
        for client in clients.values {
            let gets = client.pending.values.reduce(0) { $0 + (waiters[$1]?.request.weight ?? 0) }
            let lists = client.prefetches.values.reduce(0) { $0 + (prefetches[$1]?.weight ?? 0) }
            if client.weight != gets + lists + client.errands.count { return "weight of requests" }
            if client.unanswered > limits.maxPendingRequests { return "too many requests of one client" }
            if client.stores.contains(where: { waiters[$0] == nil }) { return "a store that is gone" }
        }
        return leases.brokenInvariant() ?? sendings.brokenInvariant()
    }
}

extension GetRequest {
    /// What it weighs among those that wait.
    var weight: Int { 1 + (url.text.utf8.count + options.headerBytes) >> 10 }
}

extension PrefetchRequest {
    /// What it weighs among those that wait.
    var weight: Int { 1 + (urls.reduce(0) { $0 + $1.text.utf8.count } + options.headerBytes) >> 10 }
}

extension GetOptions {
    fileprivate var headerBytes: Int { headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count } }
}
