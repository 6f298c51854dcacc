import Digests
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

// The validity page as its clients see it.
extension StrictWorld {
    /// Whether the page marks the slot as valid.
    func isValid(_ slot: ImageReply.Slot) -> Bool {
        guard let word = words[slot.number] else { return false }
        return word.generation == slot.generation && clock.nanoseconds / 100_000_000 < word.expiry
    }

    /// Checks that a valid slot names the buffer that a request would get.
    func checkPage(after event: Event) {
        named = named.filter { isValid($0.slot) && state.clients.holds($0.client, BufferID(number: $0.buffer)) }
        for (client, uid, request, buffer, _) in named {
            var request = request
            let refusal = state.clients[client].flatMap { state.expandPreset(of: &request.options, for: $0) }
            let waiter = Waiter(
                id: WaiterID(number: 0), client: client, uid: uid, purpose: .get, request: request,
                key: OriginalKey(request, uid: uid), receivedAt: clock)
            let hit = state.isDraining || refusal != nil ? nil : state.memoryHit(for: waiter)
            if hit?.buffer.number != buffer {
                complain("after \(event): the page says \(buffer), which is not the answer")
            }
        }
    }

    /// Requests the validity page.
    func greet(_ client: ClientID) {
        happen(.messageReceived(client, .hello(id: 1 << 40, client: nil, validity: true, segments: mapsSegments)))
    }
}

// Checks that the bytes of originals are in memory only while they are needed.
extension StrictWorld {
    /// Records that the disk tier holds an original.
    func noteOnDisk(key: String, digest: String) { onDisk.insert("\(key) \(digest)") }

    /// Checks that an original on disk is in memory only while it is held or if it was requested as an original.
    /// Computed from the entries of the index, independently of its own accounting.
    func checkOriginals(after event: Event) {
        let index = state.memory
        var isNeeded: [ContentKey: Bool] = [:]
        for key in index.keys(where: { _ in true }) {
            guard let original = index.original(key) else { continue }
            if original.isOnDisk, !onDisk.contains("\(key.word) \(original.content.digest.hexadecimal)") {
                complain("after \(event): the disk tier is said to have what it has not")
            }
            isNeeded[original.content] = isNeeded[original.content, default: false] || !original.isOnDisk
        }
        for buffer in index.bufferIDs.compactMap({ index.record(of: $0) }) where buffer.variant.form == .original {
            if buffer.holders == 0, !buffer.wasRequested, isNeeded[buffer.variant.content] != true {
                complain("after \(event): an original that is on disk and of no use")
            }
        }
    }
}
