import HTTPValues
import IPCProtocol
package import SystemValues
import WorkerProtocol

// The fast path: a `get` whose text was a memory hit before and still is one, and the release of a single buffer.
// Anything unusual is left to `handle`, and both ways have the same effect.
extension BrokerState {
    package enum RepeatedAnswer {
        /// The reply is an `image` frame with this id, this text after the id, and the descriptor of this buffer, if
        /// any.
        case image(id: Int, rest: [UInt8], descriptor: BufferID?)
        /// A lease was released. There is no reply; these words are to be written to the validity page.
        case released([ValiditySlots.Change])
    }

    /// Answers a client's frame without reading it as JSON. Returns nil when the shell must read the frame and pass its
    /// message to `handle` next; if that is a memory hit, it is remembered under this text.
    package mutating func answerRepeated(
        _ frame: ArraySlice<UInt8>, from client: ClientID, at time: Instant
    ) -> RepeatedAnswer? {
        repeatable = nil
        if let number = RepeatableText.releasedBuffer(frame) {
            // A release with another effect, as that something must be evicted, is left to `handle`.
            guard memory.isReleasedAlone(BufferID(number: number)) else { return nil }
            if clients.release(BufferID(number: number), from: client) { unhold(BufferID(number: number)) }
            return .released(memory.takeSlotChanges())
        }
        guard let text = RepeatableText(frame), let uid = clients.user(of: client) else { return nil }
        guard let known = repeats.find(text.rest, uid: uid), known.revision == memory.revision,
            time < known.freshUntil, !isDraining, !disk.report.mayHaveOwned, clients.mayRepeat(client)
        else {
            repeatable = (client, text)
            return nil
        }
        // A client that leases the buffer may add a lease, because quotas count a buffer once.
        let isHeld = clients.holds(client, known.buffer)
        if !isHeld,
            clients.refusal(of: known.bytes, in: known.buffer, to: client, of: uid, by: .fd, room: leaseRoom) != nil
        {
            return nil
        }
        if let segment = known.segment, !clients.has(client, segment: segment) { return nil }
        let needsDescriptor = !isHeld && known.segment == nil
        // It has to be shared.
        if needsDescriptor, !memory.hasMemfd(known.buffer) { return nil }
        now = Moment(instant: time, unixMs: now.unixMs)
        memory.touch(known.buffer, at: time)
        noteUse(of: known.key)
        if clients.grant(known.buffer, bytes: known.bytes, to: client, of: uid, .lease) {
            memory.hold(known.buffer, bytes: known.bytes)
        }
        counters.add(for: uid) {
            $0.requests += 1
            $0.count(.memoryHits)
        }
        updateSummary()
        return .image(
            id: text.id, rest: needsDescriptor ? known.answerWithDescriptor : known.answer,
            descriptor: needsDescriptor ? known.buffer : nil)
    }

    /// Remembers the hit that was just answered under its text, if the same request would be it again.
    mutating func rememberHit(_ request: GetRequest, from client: ClientID, of uid: UInt32, _ hit: MemoryHit) {
        guard let (asking, text) = repeatable.take(), asking == client, text.id == request.id,
            request.options.delivery == .fd, !request.options.retryFailed, !request.options.trace,
            // An administrator may request more than others with the same uid.
            !limits.allowsPresetsOnly || request.options.preset != nil,
            case .reply(_, .image(_, let image), _)? = actions.last, let buffer = image.buffer, !image.stale,
            image.slot == nil
        else { return }
        let revision = memory.revision
        let freshUntil = memory.monotonicTime(validUntil(hit.original.origin, request.options))
        repeats.note(text.rest, uid: uid) {
            guard text.isPlain else { return nil }
            return RepeatedRequest(
                uid: uid, text: Array(text.rest), key: hit.key, image: image, buffer: BufferID(number: buffer),
                freshUntil: freshUntil, revision: revision)
        }
    }

    /// Until when an original in memory answers a request as it does now, in the time by which originals age.
    private func validUntil(_ origin: OriginStatement, _ options: GetOptions) -> Instant {
        guard let most = options.maxAgeSeconds else { return origin.freshUntil }
        // The age is rounded down, so it does not exceed the maximum before.
        let left = max(0, most - origin.age(at: agingNow))
        return min(origin.freshUntil, agingNow.adding(milliseconds: left * 1000))
    }
}
