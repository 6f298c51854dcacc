import HTTPValues
import IPCProtocol
import SystemValues

/// The connected clients, their unanswered requests, leases and subscriptions, and the quotas of what they share.
///
/// A quota is a fair share of a pool (`FairShare`): of connections, of the weight of unanswered requests, of
/// subscriptions, and of the memory that leases keep from being freed.
package struct Clients {
    package struct Client {
        let uid: UInt32
        let isAdmin: Bool
        /// Whether it sees the figures of all users, as administrators and the members of one group do.
        let seesFigures: Bool
        /// The unanswered requests by their ids.
        fileprivate(set) var requests: [Int: (kind: Request, weight: Int)] = [:]
        /// The `get`s and `prefetch`es that are detached, after an upgrade also before they are made once more.
        fileprivate(set) var detached: Set<Int> = []
        /// The waiters of its `store`s that are being decoded.
        fileprivate(set) var stores: Set<WaiterID> = []
        /// The weight of its unanswered requests.
        fileprivate(set) var weight = 0
        fileprivate(set) var subscriptions: [(events: Set<BrokerEvent.Name>, id: Int)] = []
        /// When the frame began that is still arriving.
        fileprivate(set) var frameBegunAt: Instant?
        /// Whether it received the validity page.
        fileprivate(set) var hasPage = false
        fileprivate(set) var program: StatsReport.Program?
        /// Whose segments it maps; nil for a client that maps none.
        fileprivate(set) var segmentOwner: SegmentOwner?
        /// The segments that it was sent and has not forgotten.
        fileprivate(set) var segments: Set<Int> = []
        /// Its mount namespace, if it was read.
        let namespace: UInt64?

        /// The reason to refuse a request with this id; nil when no other one with it is unanswered.
        func refusal(ofID id: Int?) -> WireError? {
            guard let id, requests[id] != nil else { return nil }
            return WireError(.badRequest, "id \(id) is that of a pending request.")
        }

        /// The waiters of its unanswered `get`s.
        var gets: [WaiterID] { requests.values.compactMap { $0.kind.waiter }.sorted() }
        /// Its unanswered `prefetch`es.
        var prefetches: [PrefetchID] { requests.values.compactMap { $0.kind.prefetch }.sorted() }
        /// The ids of its other unanswered requests.
        var others: [Int] { requests.filter { $0.value.kind == .other }.keys.sorted() }
    }

    enum Request: Equatable {
        case get(WaiterID)
        case prefetch(PrefetchID)
        /// It waits for the disk tier, a decoder, a helper or the shell.
        case other

        var waiter: WaiterID? { if case .get(let waiter) = self { waiter } else { nil } }
        var prefetch: PrefetchID? { if case .prefetch(let prefetch) = self { prefetch } else { nil } }
    }

    /// How a client gets the bytes of a buffer.
    enum Use {
        /// It leases the buffer and has its descriptor.
        case lease
        /// The bytes are sent inline; the client gets no descriptor.
        case sending
    }

    /// The memory that leases and sendings may still keep from being freed.
    struct Room {
        let bytes: Int
        let buffers: Int
    }

    /// A client may always have this many requests, unless the pool is exhausted.
    static let guaranteedRequests = 256
    private static let maximumSubscriptions = 8

    var limits: BrokerLimits
    private var clients: [ClientID: Client] = [:]
    private var connections: SharedPool
    private var requests: SharedPool
    private var subscriptions: SharedPool
    private var stores: SharedPool
    private var subscribers: Set<ClientID> = []
    private var leases = LeaseTable()
    /// The ended segments that clients have, with the number of those clients.
    private var endedSegments: [Int: (bytes: Int, clients: Int)] = [:]
    /// The bytes of those, each counted once: every request asks for them.
    private(set) var endedSegmentBytes = 0
    /// Buffers whose bytes are being sent inline.
    private var sendings = LeaseTable()

    init(limits: BrokerLimits) {
        self.limits = limits
        connections = SharedPool(limit: limits.maxClients)
        requests = SharedPool(limit: limits.maxRequests)
        subscriptions = SharedPool(limit: limits.maxSubscriptions)
        stores = SharedPool(limit: limits.maxStores)
    }

    var count: Int { clients.count }
    subscript(client: ClientID) -> Client? { clients[client] }

    /// The user of a client, found without a copy of the client.
    func user(of client: ClientID) -> UInt32? { clients.index(forKey: client).map { clients.values[$0].uid } }

    func isAdmin(_ client: ClientID) -> Bool {
        clients.index(forKey: client).map { clients.values[$0].isAdmin } ?? false
    }

    /// Whether a client's repeated requests take the fast path, which knows neither other requests, nor a page, nor a
    /// program.
    func mayRepeat(_ client: ClientID) -> Bool {
        guard let place = clients.index(forKey: client) else { return false }
        return clients.values[place].requests.isEmpty && !clients.values[place].hasPage
            && clients.values[place].program == nil
    }

    // MARK: Connections

    /// Adds a client, unless its user has its share of connections; administrators have no such share.
    mutating func connected(
        _ client: ClientID, uid: UInt32, isAdmin: Bool, seesFigures: Bool = false, namespace: UInt64? = nil
    ) -> WireError? {
        let refusal = connections.refusal(of: 1, own: 0, user: uid, isAdmin: isAdmin)
        if let refusal, !isAdmin || connections.taken >= connections.limit {
            let message = "This user has \(connections.taken(by: uid)) connections of \(connections.taken)."
            return error(refusal, message)
        }
        connections.take(1, for: uid)
        clients[client] = Client(uid: uid, isAdmin: isAdmin, seesFigures: isAdmin || seesFigures, namespace: namespace)
        return nil
    }

    /// Counts a connection whose client is gone and whose socket is open, so that reconnecting gains nothing.
    mutating func connectionLingers(of uid: UInt32) { connections.take(1, for: uid) }

    mutating func connectionClosed(of uid: UInt32) { connections.give(1, from: uid) }

    /// Removes a client, whose unanswered requests have been ended, and returns the buffers that it held.
    mutating func removed(_ client: ClientID) -> [BufferID] {
        guard let gone = clients.removeValue(forKey: client) else { return [] }
        requests.give(gone.weight, from: gone.uid)
        connections.give(1, from: gone.uid)
        subscriptions.give(gone.subscriptions.count, from: gone.uid)
        subscribers.remove(client)
        let leased = leases.releaseAll(from: client)
        for lease in leased where lease.number < 0 { letGo(ofEnded: -lease.number) }
        return leased.filter { $0.number > 0 } + sendings.releaseAll(from: client)
    }

    /// Notes the program that a client states; nil for one that is not counted by itself.
    mutating func states(_ client: ClientID, program: StatsReport.Program?) {
        clients.change(client) { $0.program = program }
    }

    mutating func receivedPage(_ client: ClientID) { clients.change(client) { $0.hasPage = true } }

    mutating func frameBegan(_ client: ClientID, at instant: Instant?) {
        clients.change(client) { $0.frameBegunAt = instant }
    }

    // MARK: Requests

    var pendingWeight: Int { requests.taken }

    /// The reason to refuse a request that is not answered at once; nil when it may be made.
    func refusal(ofWeight weight: Int, from client: Client) -> WireError? {
        let unanswered = client.requests.count
        if unanswered >= limits.maxPendingRequests {
            return WireError(.quotaExceeded, "\(unanswered) requests of this client are pending already.")
        }
        switch requests.refusal(of: weight, own: client.weight, user: client.uid, isAdmin: client.isAdmin) {
        case nil: return nil
        case .share where unanswered >= Self.guaranteedRequests || requests.taken(by: client.uid) > client.weight:
            return WireError(.quotaExceeded, "Too many requests of this client, or of its user, are pending already.")
        case .share, .exhausted: return WireError(.overloaded, "Too many requests are pending already.")
        }
    }

    mutating func began(_ id: Int, _ kind: Request, weight: Int, of client: ClientID) {
        let uid = clients.change(client) { known -> UInt32? in
            if known.requests[id] != nil { return nil }
            known.requests[id] = (kind, weight)
            known.weight += weight
            return known.uid
        }
        if let uid = uid ?? nil { requests.take(weight, for: uid) }
    }

    /// Ends a request; returns whether its answer was still owed.
    @discardableResult mutating func ended(_ id: Int, of client: ClientID) -> Bool {
        let ended = clients.change(client) { known -> (uid: UInt32, weight: Int)? in
            guard let request = known.requests.removeValue(forKey: id) else { return nil }
            known.detached.remove(id)
            known.weight -= request.weight
            return (known.uid, request.weight)
        }
        guard let (uid, weight) = ended ?? nil else { return false }
        requests.give(weight, from: uid)
        return true
    }

    /// The reason to refuse one more `store`, each of which takes a descriptor; nil when it may be made.
    func refusal(ofStoreFrom client: Client) -> WireError? {
        stores.refusal(of: 1, own: client.stores.count, user: client.uid, isAdmin: client.isAdmin).map {
            error($0, "Too many stored images wait to be decoded already.")
        }
    }

    mutating func began(store waiter: WaiterID, of client: ClientID) {
        guard let uid = clients[client]?.uid, clients[client]?.stores.insert(waiter).inserted == true else { return }
        stores.take(1, for: uid)
    }

    mutating func ended(store waiter: WaiterID, of client: ClientID) {
        guard let uid = clients[client]?.uid, clients[client]?.stores.remove(waiter) != nil else { return }
        stores.give(1, from: uid)
    }

    /// Notes that the downloads of a `get` or `prefetch` go on when it is cancelled.
    mutating func detach(_ id: Int, of client: ClientID) { clients.change(client) { $0.detached.insert(id) } }

    /// The clients with requests besides one that are neither `get`s nor `prefetch`es.
    func withOthers(besides requester: (client: ClientID, id: Int)) -> Set<ClientID> {
        Set(
            clients.lazy.filter { client, known in
                known.requests.contains {
                    $0.value.kind == .other && (client != requester.client || $0.key != requester.id)
                }
            }.map(\.key))
    }

    // MARK: Subscriptions

    var hasSubscribers: Bool { !subscribers.isEmpty }

    mutating func subscribe(_ client: ClientID, to events: Set<BrokerEvent.Name>, id: Int) -> WireError? {
        guard let asking = clients[client] else { return nil }
        let own = asking.subscriptions.count
        if own >= Self.maximumSubscriptions {
            return WireError(.quotaExceeded, "A client may subscribe \(Self.maximumSubscriptions) times.")
        }
        if let refusal = subscriptions.refusal(of: 1, own: own, user: asking.uid, isAdmin: asking.isAdmin) {
            return error(refusal, "\(subscriptions.taken) subscriptions are open already.")
        }
        subscriptions.take(1, for: asking.uid)
        clients.change(client) { $0.subscriptions.append((events, id)) }
        subscribers.insert(client)
        return nil
    }

    /// Ends a subscription, if the client has one by this id.
    mutating func unsubscribe(_ client: ClientID, from id: Int) {
        guard let asking = clients[client], asking.subscriptions.contains(where: { $0.id == id }) else { return }
        let left = asking.subscriptions.filter { $0.id != id }
        subscriptions.give(asking.subscriptions.count - left.count, from: asking.uid)
        clients.change(client) { $0.subscriptions = left }
        if left.isEmpty { subscribers.remove(client) }
    }

    /// The subscriptions that an event goes to: those of administrators, and of the users that it is about.
    func recipients(of event: BrokerEvent.Name, about uids: Set<UInt32>) -> [(client: ClientID, id: Int)] {
        subscribers.sorted().flatMap { client -> [(client: ClientID, id: Int)] in
            guard let subscriber = clients[client], subscriber.isAdmin || uids.contains(subscriber.uid) else {
                return []
            }
            return subscriber.subscriptions.filter { $0.events.contains(event) }.map { (client, $0.id) }
        }
    }

    // MARK: Segments

    mutating func mapsSegments(_ client: ClientID, in namespace: UInt64?) {
        clients.change(client) { $0.segmentOwner = SegmentOwner(uid: $0.uid, namespace: namespace) }
    }

    func segmentOwner(of client: ClientID) -> SegmentOwner? {
        clients.index(forKey: client).flatMap { clients.values[$0].segmentOwner }
    }

    func has(_ client: ClientID, segment: Int) -> Bool {
        clients.index(forKey: client).map { clients.values[$0].segments.contains(segment) } ?? false
    }

    mutating func sent(segment: Int, to client: ClientID) { clients.change(client) { $0.segments.insert(segment) } }

    /// Notes that a segment has ended. Returns the clients that have it; it counts among their leases until they forget
    /// it.
    mutating func ended(_ segment: Int, bytes: Int) -> [ClientID] {
        let having = clients.filter { $0.value.segments.contains(segment) }
        for client in having.keys { keep(ended: segment, bytes: bytes, by: client) }
        return having.keys.sorted()
    }

    private mutating func keep(ended segment: Int, bytes: Int, by client: ClientID) {
        guard let uid = clients[client]?.uid else { return }
        _ = leases.grant(Self.lease(onEnded: segment), bytes: bytes, to: client, of: uid)
        if endedSegments[segment] == nil { endedSegmentBytes += bytes }
        endedSegments[segment, default: (bytes, 0)].clients += 1
    }

    mutating func forget(_ segments: [Int], by client: ClientID) {
        guard let known = clients[client]?.segments else { return }
        for segment in segments where known.contains(segment) {
            clients.change(client) { $0.segments.remove(segment) }
            if leases.release(Self.lease(onEnded: segment), from: client) { letGo(ofEnded: segment) }
        }
    }

    private mutating func letGo(ofEnded segment: Int) {
        guard let (bytes, clients) = endedSegments[segment] else { return }
        endedSegments[segment] = clients > 1 ? (bytes, clients - 1) : nil
        if clients == 1 { endedSegmentBytes -= bytes }
    }

    func keptSegments(of client: ClientID) -> [KeptClient.Segment] {
        let ended = Dictionary(
            leases.holds(of: client).filter { $0.buffer.number < 0 }.map { (-$0.buffer.number, $0.bytes) },
            uniquingKeysWith: { first, _ in first })
        return (clients[client]?.segments ?? []).sorted().map { KeptClient.Segment(number: $0, endedBytes: ended[$0]) }
    }

    mutating func restore(_ segment: KeptClient.Segment, of client: ClientID) {
        sent(segment: segment.number, to: client)
        if let bytes = segment.endedBytes { keep(ended: segment.number, bytes: bytes, by: client) }
    }

    /// The lease on an ended segment, which no buffer has: their numbers are positive.
    private static func lease(onEnded segment: Int) -> BufferID { BufferID(number: -segment) }

    // MARK: Buffers

    func holds(_ client: ClientID, _ buffer: BufferID, _ use: Use = .lease) -> Bool {
        use == .lease ? leases.holds(client, buffer) : sendings.holds(client, buffer)
    }

    /// Adds a hold; returns whether it is the client's first of that kind on the buffer.
    mutating func grant(_ buffer: BufferID, bytes: Int, to client: ClientID, of uid: UInt32, _ use: Use) -> Bool {
        switch use {
        case .lease: leases.grant(buffer, bytes: bytes, to: client, of: uid)
        case .sending: sendings.grant(buffer, bytes: bytes, to: client, of: uid)
        }
    }

    func kept(of client: ClientID) -> [KeptClient.Hold] {
        leases.holds(of: client).filter { $0.buffer.number > 0 }.map {
            KeptClient.Hold(buffer: $0.buffer.number, count: $0.count, bytes: $0.bytes)
        }
            + sendings.holds(of: client).map {
                KeptClient.Hold(buffer: $0.buffer.number, count: $0.count, bytes: $0.bytes, isSending: true)
            }
    }

    /// Takes over a hold of another process; returns whether it is the client's first of that kind on the buffer.
    mutating func restore(_ hold: KeptClient.Hold, of client: ClientID) -> Bool {
        guard let uid = clients[client]?.uid else { return false }
        let buffer = BufferID(number: hold.buffer)
        return hold.isSending
            ? sendings.grant(buffer, bytes: hold.bytes, to: client, of: uid, times: hold.count)
            : leases.grant(buffer, bytes: hold.bytes, to: client, of: uid, times: hold.count)
    }

    /// Ends a hold; returns whether it was the client's last of that kind on the buffer.
    mutating func release(_ buffer: BufferID, from client: ClientID, _ use: Use = .lease) -> Bool {
        use == .lease ? leases.release(buffer, from: client) : sendings.release(buffer, from: client)
    }

    /// The reason to refuse a client one more buffer; nil when it may have it.
    func refusal(
        of bytes: Int, in buffer: BufferID, to client: ClientID, of uid: UInt32, by delivery: GetOptions.Delivery,
        room: Room
    ) -> WireError? {
        switch delivery {
        case .fd where !leases.holds(client, buffer): return refusal(ofHolding: bytes, client, uid, room)
        case .inline, .header:
            if bytes > limits.maxInlineBytes {
                let message = "\(bytes) bytes are more than an inline payload may have (\(limits.maxInlineBytes))."
                return WireError(.tooLarge, message)
            }
            if sendings.holds(client, buffer) { return nil }
            let unsent = sendings.held(by: client).bytes
            if unsent == 0 || unsent + bytes <= limits.maxInlineBytes {
                return refusal(ofHolding: bytes, client, uid, room)
            }
            let message = "\(unsent) bytes of inline images wait for this client to receive them."
            return WireError(.quotaExceeded, message)
        case .fd, .none: return nil
        }
    }

    /// The quota of leased memory: holds count in full, and the share is of the room that all holds leave.
    private func refusal(ofHolding bytes: Int, _ client: ClientID, _ uid: UInt32, _ room: Room) -> WireError? {
        let leased = leases.held(by: client)
        let own = leased + sendings.held(by: client)
        // A client that holds nothing is served while any room is left, even if it is less than this buffer.
        if own.buffers == 0 {
            if room.bytes <= 0 || room.buffers <= 0 {
                let taken = limits.maxEvictedBytes - room.bytes
                return WireError(.overloaded, "\(taken) bytes are leased beside what is cached.")
            }
        } else if leased.bytes + bytes > limits.maxLeasedBytes || leased.buffers >= limits.maxLeasedBuffers
            || !Self.permits(bytes, own, room, FairShare.ofClient)
        {
            let message = "This client holds \(own.buffers) buffers with \(own.bytes) bytes already."
            return WireError(.quotaExceeded, message)
        }
        if clients[client]?.isAdmin != false { return nil }
        let users = leases.held(byUser: uid) + sendings.held(byUser: uid)
        if users.buffers == 0 || Self.permits(bytes, users, room, FairShare.ofUser) { return nil }
        let message = "This user's clients hold \(users.buffers) buffers with \(users.bytes) bytes already."
        return WireError(.quotaExceeded, message)
    }

    private static func permits(_ bytes: Int, _ own: LeaseTable.Amount, _ room: Room, _ multiple: Int) -> Bool {
        FairShare.permits(bytes, own: own.bytes, left: room.bytes, multiple)
            && FairShare.permits(1, own: own.buffers, left: room.buffers, multiple)
    }

    private func error(_ refusal: SharedPool.Refusal, _ message: String) -> WireError {
        WireError(refusal == .share ? .quotaExceeded : .overloaded, message)
    }

    func connections(of user: UInt32) -> Int { connections.taken(by: user) }

    func leased(by user: UInt32) -> LeaseTable.Amount { leases.held(byUser: user) }

    var leased: LeaseTable.Amount { leases.held }

    // MARK: Invariants

    /// The holds by buffer: one for each client that leases it, and one for each to which its bytes are being sent.
    var holdings: [BufferID: Int] {
        leases.holdings.filter { $0.key.number > 0 }.merging(sendings.holdings, uniquingKeysWith: +)
    }

    var isSendingNothing: Bool { sendings.isEmpty }

    func held(by client: ClientID, _ use: Use = .lease) -> LeaseTable.Amount {
        use == .lease ? leases.held(by: client) : sendings.held(by: client)
    }
    var subscriptionsTaken: Int { subscriptions.taken }
    var connectionsTaken: Int { connections.taken }
    func pendingWeight(of uid: UInt32) -> Int { requests.taken(by: uid) }

    /// The weights are those of the unanswered requests by waiter and by prefetch.
    func brokenInvariant(getWeight: (WaiterID) -> Int?, prefetchWeight: (PrefetchID) -> Int?) -> String? {
        let users = Set(clients.values.map(\.uid))
        for (pool, name, amount) in [
            (connections, "connections", { (_: Client) in 1 }),
            (requests, "requests", { (client: Client) in client.weight }),
            (subscriptions, "subscriptions", { (client: Client) in client.subscriptions.count }),
            (stores, "stores", { (client: Client) in client.stores.count }),
        ] {
            if pool.taken != clients.values.reduce(0, { $0 + amount($1) }) { return "pool of \(name)" }
            if pool.taken != users.reduce(0, { $0 + pool.taken(by: $1) }) { return "pool of users' \(name)" }
            if pool.taken > pool.limit { return "more \(name) than the limit" }
        }
        if endedSegments.values.reduce(0, { $0 + $1.bytes }) != endedSegmentBytes { return "bytes of ended segments" }
        for client in clients.values {
            let weight = client.requests.values.reduce(0) { sum, request in
                switch request.kind {
                case .get(let waiter): sum + (getWeight(waiter) ?? 0)
                case .prefetch(let prefetch): sum + (prefetchWeight(prefetch) ?? 0)
                case .other: sum + request.weight
                }
            }
            if client.weight != weight { return "weight of requests" }
            if client.requests.count > limits.maxPendingRequests { return "too many requests of one client" }
            if client.stores.contains(where: { getWeight($0) == nil }) { return "a store without a waiter" }
        }
        if subscribers != Set(clients.filter { !$0.value.subscriptions.isEmpty }.keys) { return "subscribers" }
        return leases.brokenInvariant() ?? sendings.brokenInvariant()
    }
}

// The weight of an unanswered request: one, and one more for each full KiB of text.

extension SourceURL {
    var weight: Int { 1 + text.utf8.count >> 10 }
}

extension GetRequest {
    var weight: Int { 1 + (url.text.utf8.count + options.textBytes) >> 10 }
}

extension PrefetchRequest {
    var weight: Int { 1 + (urls.reduce(0) { $0 + $1.text.utf8.count } + options.textBytes) >> 10 }
}

extension GetOptions {
    /// The bytes of its texts besides URLs.
    fileprivate var textBytes: Int {
        headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count } + (cacheKey?.utf8.count ?? 0)
            + (credentials.map { $0.username.utf8.count + $0.password.utf8.count } ?? 0)
            + alternatives.reduce(0) { $0 + $1.text.utf8.count }
    }
}

extension StoreRequest {
    var weight: Int { 1 + (url.text.utf8.count + (contentType?.utf8.count ?? 0)) >> 10 }
}
