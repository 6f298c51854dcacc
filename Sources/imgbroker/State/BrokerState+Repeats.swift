import IPCProtocol
import SystemValues
import WorkerProtocol

// The shortest way: a request whose text was a hit before, and still is. Whatever is unusual about it is left to the way
// that all requests go; what they do here and there is the same.
extension BrokerState {
    /// An answer that needs nothing but a name: what its frame says behind the id, and the buffer whose descriptor goes
    /// along.
    struct RepeatedAnswer {
        let rest: [UInt8]
        let descriptor: BufferID?
    }

    /// What the last `get` was answered with, if that was a plain hit.
    struct Hit {
        let uid: UInt32
        /// What of the index it is true of.
        let revision: Int
        let key: OriginalKey
        let buffer: BufferID
        let image: ImageReply
        let freshUntil: Instant
    }

    /// Notes the hit that was answered just now, if the same request would be a hit again.
    mutating func noteHit(
        _ request: GetRequest, of uid: UInt32, _ key: OriginalKey, _ original: MemoryIndex.Original
    ) {
        guard request.options.delivery == .fd, !request.options.retryFailed,
            case .reply(_, .image(_, let image), _)? = actions.last, let buffer = image.buffer, !image.stale,
            image.slot == nil
        else { return }
        lastHit = Hit(
            uid: uid, revision: index.revision, key: key, buffer: BufferID(number: buffer), image: image,
            freshUntil: original.origin.freshUntil)
    }

    /// Remembers that the last hit answered this text.
    mutating func rememberHit(_ text: RepeatableText, of uid: UInt32) {
        guard let hit = lastHit.take(), hit.uid == uid else { return }
        repeats.note(text.rest, uid: uid) {
            guard text.isPlain else { return nil }
            return RepeatedRequest(
                uid: uid, text: Array(text.rest), key: hit.key, image: hit.image, buffer: hit.buffer,
                freshUntil: hit.freshUntil, revision: hit.revision)
        }
    }

    /// Answers a request that was a hit before; nil when it has to be read.
    mutating func answerAgain(
        _ text: RepeatableText, from client: ClientID, uid: UInt32, at time: Instant
    ) -> RepeatedAnswer? {
        guard let known = repeats.find(text.rest, uid: uid), known.revision == index.revision, time < known.freshUntil,
            !isDraining, !disk.mayHaveOwned, let place = clients.index(forKey: client),
            clients.values[place].unanswered == 0, !clients.values[place].hasPage
        else { return nil }
        // Whoever holds the buffer may hold it once more.
        let isHeld = leases.holds(client, known.buffer)
        if !isHeld, refusal(ofHolding: known.bytes, client, uid) != nil { return nil }
        now = time
        counters.requests += 1
        index.touch(known.buffer, at: now)
        noteUse(of: known.key)
        if leases.grant(known.buffer, bytes: known.bytes, to: client, of: uid) { index.hold(known.buffer) }
        counters.count(.memoryHits)
        return RepeatedAnswer(
            rest: isHeld ? known.answer : known.answerWithDescriptor, descriptor: isHeld ? nil : known.buffer)
    }

    /// Takes back a lease, if that changes nothing else: the buffer stays where it is, as there is room for everything.
    mutating func releaseAtOnce(_ buffer: BufferID, from client: ClientID) -> Bool {
        guard index.buffers[buffer]?.isResident == true, index.fits else { return false }
        release(buffer, from: client)
        return true
    }
}
