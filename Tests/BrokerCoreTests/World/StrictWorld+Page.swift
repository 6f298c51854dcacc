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
    mutating func checkPage(after event: Event) {
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
    mutating func greet(_ client: ClientID) {
        happen(.messageReceived(client, .hello(id: 1 << 40, client: nil, validity: true, segments: mapsSegments)))
    }
}
