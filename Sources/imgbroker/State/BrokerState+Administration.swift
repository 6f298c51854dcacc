import HTTPValues
import IPCProtocol
import SystemValues

// What administrators ask for, and the events that anybody may follow as far as they are about the own requests.
extension BrokerState {
    // MARK: clear and failed

    mutating func clear(_ tier: CacheTier, olderThanSeconds: Int?, id: Int, from client: ClientID) {
        var (removed, bytes) = (0, 0)
        if tier.includesDisk, canLookUp, let asking = clients[client],
            let refusal = refusal(ofWeight: 1, from: asking)
        {
            return reject(id, of: client, with: refusal)
        }
        if tier.includesMemory {
            let time = Instant(nanoseconds: now.nanoseconds - Int64(olderThanSeconds ?? 0) * 1_000_000_000)
            let keys = (olderThanSeconds ?? 0) == 0 ? index.keys { $0.nonce == 0 } : index.keys(unusedSince: time)
            for key in keys where key.nonce == 0 {
                bytes += index.bytes(of: key)
                removed += 1
                dropRemoved(index.remove(key))
            }
            if olderThanSeconds == nil { dropPartials { _ in true } }
        }
        guard tier.includesDisk, canLookUp else {
            return reply(.cleared(id: id, removed: removed, bytes: bytes), to: client)
        }
        endLookups { _ in true }
        beginErrand(id, of: client)
        ask(.clear((client, id), olderThanSeconds: olderThanSeconds, removed: removed, bytes: bytes))
    }

    mutating func listFailed(_ url: SourceURL?, id: Int, from client: ClientID) {
        // What one frame holds, with room to spare.
        var bytes = 0
        let entries = failedList.entries(at: now).filter { url == nil || $0.url == url?.text }.prefix {
            bytes += $0.url.utf8.count * 3 + 100
            return bytes < Frame.maximumLength
        }
        let found = entries.map {
            let seconds = ($0.expires.microseconds(since: now) + 999_999) / 1_000_000
            return FailedEntry(url: $0.url, code: $0.error.code, expires: unixMs / 1000 + seconds)
        }
        reply(.failedEntries(id: id, found), to: client)
    }

    // MARK: Events

    mutating func subscribe(to events: Set<BrokerEvent.Name>, id: Int, from client: ClientID) {
        guard let asking = clients[client] else { return }
        if let refusal = refusal(ofSubscription: asking) { return reject(id, of: client, with: refusal) }
        subscriptionPool.take(1, for: asking.uid)
        clients[client]?.subscriptions.append((events, id))
        subscribers.insert(client)
        index.notesEvictions = true
        reply(.ok(id: id), to: client)
    }

    mutating func unsubscribe(_ client: ClientID) {
        guard subscribers.remove(client) != nil else { return }
        index.notesEvictions = !subscribers.isEmpty
        _ = index.takeEvicted()
    }

    /// Tells those who want to know, and may: administrators, and the users it is about.
    mutating func tell(_ event: BrokerEvent, uids: Set<UInt32>) {
        for client in subscribers.sorted() {
            guard let subscriber = clients[client], subscriber.isAdmin || uids.contains(subscriber.uid) else {
                continue
            }
            for (events, id) in subscriber.subscriptions where events.contains(event.name) {
                reply(.event(id: id, event), to: client)
            }
        }
    }

    /// Tells of a download.
    mutating func tell(_ name: BrokerEvent.Name, of flight: FetchFlight, reason: String? = nil) {
        if subscribers.isEmpty || flight.isGiven { return }
        let uids = Set(flight.waiters.compactMap { waiters[$0]?.uid })
        tell(BrokerEvent(name, url: flight.url.text, reason: reason), uids: uids)
    }

    /// Tells of what has left the memory. Whose requests had brought what belongs to all is not known; so only
    /// administrators hear of that.
    mutating func tellOfEvictions() {
        if subscribers.isEmpty { return }
        for keys in index.takeEvicted() {
            for key in keys.sorted(by: { $0.url.text < $1.url.text }) {
                tell(BrokerEvent(.evicted, url: key.url.text), uids: key.owner.map { [$0] } ?? [])
            }
        }
    }
}
