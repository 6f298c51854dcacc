import IPCProtocol
import SystemValues

@testable import BrokerCore

/// Handles an event by the fast path in a copy of the state. The result must equal that of `handle`.
struct Shortcut {
    private let client: ClientID
    private var other: BrokerState
    private let answer: BrokerState.RepeatedAnswer?

    /// Returns nil for events that do not come from a client's frame.
    init?(_ state: BrokerState, _ event: Event, at now: Instant) {
        guard case .messageReceived(let client, let message) = event, state.clients[client] != nil else { return nil }
        guard let frame = try? message.encoded() else { return nil }
        (self.client, other) = (client, state)
        answer = other.answerRepeated(frame.dropFirst(Frame.headerLength), from: client, at: now)
    }

    /// Whether the fast path answered.
    var isTaken: Bool { answer != nil }

    /// The text under which `handle` remembers a hit.
    var repeatable: (client: ClientID, text: RepeatableText)? { other.repeatable }

    /// Returns the first difference from `state`, in which the event was handled and led to `actions`; nil for none.
    func difference(from state: BrokerState, _ actions: [Action]) -> String? {
        switch answer {
        case nil: return nil
        case .released(let changes):
            if actions != (changes.isEmpty ? [] : [.updateValidity(changes)]) { return "a release led to \(actions)" }
        case .image(let id, let rest, let buffer):
            guard case .reply(client, let reply, let attachment) = actions.first, actions.count == 1 else {
                return "\(actions) instead of one reply"
            }
            if reply.encoded() != Reply.imageFrame(id: id, rest: rest) { return "another answer: \(reply)" }
            let descriptor: Action.Attachment = buffer.map { .descriptor($0) } ?? .nothing
            if attachment != descriptor { return "\(descriptor) instead of \(attachment)" }
        }
        if let broken = other.brokenInvariant() { return broken }
        if other.report != state.report { return "other figures" }
        if other.clients.holdings != state.clients.holdings { return "other leases" }
        if other.clients.held(by: client) != state.clients.held(by: client) { return "another amount of leases" }
        if other.disk.used != state.disk.used { return "other originals were used" }
        if other.nextDeadline != state.nextDeadline { return "another deadline" }
        for buffer in state.memory.bufferIDs {
            let (mine, others) = (state.memory.record(of: buffer), other.memory.record(of: buffer))
            if mine?.holders != others?.holders { return "other holders" }
            if mine?.usedAt != others?.usedAt { return "other times" }
        }
        return nil
    }
}
