import IPCProtocol
import WorkerProtocol

// The validity page: who has it, and what those who have it tell of hits that nobody here has seen.
extension BrokerState {
    mutating func greet(_ client: ClientID, id: Int, withPage: Bool) {
        guard withPage, limits.validitySlots > 0 else { return reply(.hello(id: id, hello), to: client) }
        clients[client]?.hasPage = true
        var hello = hello
        hello.slots = limits.validitySlots
        reply(.hello(id: id, hello), .page, to: client)
    }

    /// Notes that a client has used what it leases, as often as it says.
    mutating func touch(_ buffers: [Int], hits: Int, from client: ClientID) {
        // Each once, however often it is named.
        for number in Set(buffers) {
            let buffer = BufferID(number: number)
            guard leases.holds(client, buffer) else { continue }
            index.touch(buffer, at: now)
            if canNoteUse { for key in index.keysWithSlot(for: buffer) { noteUse(of: key) } }
        }
        let (sum, overflowed) = counters.mappedHits.addingReportingOverflow(hits)
        counters.mappedHits = overflowed ? .max : sum
    }

    /// Ends all slots when users may have got originals of their own that only the disk tier knows of: it is to be asked
    /// first from now on.
    mutating func endDoubtfulSlots() {
        let asksForOwn = disk.mayHaveOwned && canLookUp
        if asksForOwn, !askedForOwn { index.endSlots() }
        askedForOwn = asksForOwn
    }
}
