import IPCProtocol
import LinuxSystem
import SystemValues

@testable import imgbroker

/// The same event by the short way, in a copy of the state: what comes of it must be what comes of the general one.
struct Shortcut {
    private enum Way {
        case get(RepeatableText, BrokerState.RepeatedAnswer)
        case release
    }

    private let client: ClientID
    private let uid: UInt32
    private let text: RepeatableText?
    private var other: BrokerState
    private var way: Way?

    /// Nil for events that have none.
    init?(_ state: BrokerState, _ event: Event, at now: Instant) {
        guard case .messageReceived(let client, let message) = event, let uid = state.clients[client]?.uid else {
            return nil
        }
        (self.client, self.uid, other) = (client, uid, state)
        let frame = message.encoded().dropFirst(Frame.headerLength)
        text = RepeatableText(frame)
        if let text, let answer = other.answerAgain(text, from: client, uid: uid, at: now) { way = .get(text, answer) }
        if let number = RepeatableText.releasedBuffer(frame),
            other.releaseAtOnce(BufferID(number: number), from: client)
        {
            way = .release
        }
        other.now = now
    }

    /// Whether it can be gone.
    var isTaken: Bool { way != nil }

    /// What is otherwise than in `state`, in which the event was handled and led to `actions`; nil when nothing is.
    func difference(from state: BrokerState, _ actions: [Action]) -> String? {
        switch way {
        case nil: return nil
        case .release: if !actions.isEmpty { return "a release led to \(actions)" }
        case .get(let text, let answer):
            guard case .reply(client, let reply, let attachment) = actions.first, actions.count == 1 else {
                return "\(actions) instead of one reply"
            }
            if reply.encoded() != Reply.imageFrame(id: text.id, rest: answer.rest) { return "another answer: \(reply)" }
            let descriptor: Action.Attachment = answer.descriptor.map { .descriptor($0) } ?? .nothing
            if attachment != descriptor { return "\(descriptor) instead of \(attachment)" }
        }
        if let broken = other.brokenInvariant() { return broken }
        if other.report != state.report { return "other figures" }
        if other.leases.holdings != state.leases.holdings { return "other leases" }
        if other.leases.held(by: client) != state.leases.held(by: client) { return "another amount of leases" }
        if other.index.slots.brokenInvariant(leads: { _, _ in true }) != nil { return "broken slots" }
        if other.touched != state.touched { return "other originals were used" }
        if other.index.buffers.map(\.holders) != state.index.buffers.map(\.holders) {
            return "other holders"
        }
        if other.index.buffers.map(\.usedAt) != state.index.buffers.map(\.usedAt) { return "other times" }
        return nil
    }

    /// Notes that the event was a hit.
    func remember(in state: inout BrokerState) {
        if let text { state.rememberHit(text, of: uid) }
    }
}
