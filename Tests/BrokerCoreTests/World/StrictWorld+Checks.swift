import Digests
import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

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

// What crashes are charged to.
extension StrictWorld {
    var areDecodersBroken: Bool { state.supervision.areDecodersBroken(at: clock) }

    /// Whether a user's images of a source are paused.
    func isPaused(
        _ user: UInt32 = 1000, _ family: CodecFamily = .plain, of source: String = "http://origin.test"
    ) -> Bool {
        state.decoding.refusals.isPaused(Responsible(user: user, sources: [source]), family, at: clock)
    }

    /// Charges deaths of decoders to a user's images of the usual origin.
    func charge(_ user: UInt32 = 1000, times: Int) {
        let responsible = Responsible(user: user, sources: ["http://origin.test"])
        for _ in 0..<times { _ = state.decoding.refusals.charge(responsible, at: clock) }
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

// Local files, as the helper has them.
extension StrictWorld {
    static func identity(_ inode: UInt64, size: Int = 1000, changed: Int = 7) -> FileIdentity {
        FileIdentity(device: 1, inode: inode, size: size, modified: changed, changed: changed)
    }

    func getFile(
        _ client: ClientID, id: Int, _ file: FileID, name: String? = nil,
        _ change: (inout GetOptions) -> Void = { _ in }
    ) {
        let request = GetRequest(id: id, file: LocalFile(name: name), options: with(GetOptions(), change))
        begin(request, of: client)
        files.insert(file)
        fileRequests[file] = (client, id)
        happen(.fileRequested(client, .get(request), file))
    }

    /// Sends a `get` with a file that is identified at once.
    func getFile(
        _ client: ClientID, id: Int, _ identity: FileIdentity, isRecent: Bool = false, isLocal: Bool = true,
        _ change: (inout GetOptions) -> Void = { _ in }
    ) {
        let file = FileID(number: 1000 * client.number + id)
        getFile(client, id: id, file, change)
        examine(file, identity, isRecent: isRecent, isLocal: isLocal)
    }

    func examine(_ file: FileID, _ identity: FileIdentity, isRecent: Bool = false, isLocal: Bool = true) {
        // Only the first report on a file counts.
        if let (client, id) = fileRequests[file], fileURLs[client]?[id] == nil {
            fileURLs[client, default: [:]][id] = identity.url
        }
        happen(.fileExamined(file, .success(FileFacts(identity, isRecent: isRecent, isLocal: isLocal))))
    }

    func refuse(_ file: FileID) { happen(.fileExamined(file, .failure(WireError(.badRequest, "A pipe.")))) }

    /// Finishes a read, and lets a decoder identify the bytes.
    func finishRead(_ job: JobID, content: Int? = nil) {
        if reading.removeValue(forKey: job) == nil { return complain("no such read") }
        happen(.fileRead(job))
        if let content, identifying[job] != nil { identify(job, content: content) }
    }

    func failRead(_ job: JobID, _ failure: FileReadFailure) {
        if reading.removeValue(forKey: job) == nil { return complain("no such read") }
        happen(.fileReadFailed(job, failure))
    }

    /// Ends the helper that has a file.
    func lose(_ file: FileID) {
        for (job, read) in reading where read.file == file { failRead(job, .lost) }
        happen(.fileLost(file))
    }

    /// The helper has exactly the files that the state needs, and those that are read.
    func checkFiles(after event: Event) {
        let needed = files.filter { state.files.knows($0) }
        if needed != files { complain("after \(event): files \(files.subtracting(needed)) that nothing needs") }
    }
}

/// Segments as their owners see them: which images lie where.
struct SegmentWorld {
    private struct Image {
        var place: Segments.Place
        let bytes: Int

        var range: Range<Int> { place.offset..<place.offset + bytes }

        func overlaps(_ other: Image) -> Bool {
            place.segment == other.place.segment && range.overlaps(other.range)
        }
    }

    private var sizes: [Int: Int] = [:]
    private var images: [BufferID: Image] = [:]
    private var known: [ClientID: Set<Int>] = [:]
    private var ended: Set<Int> = []
    /// Images that clients still have mapped, whose connections the broker has ended.
    private var mapped: [Image] = []
    /// The number of images that were placed, that were sent as parts of segments, and that were leased when their
    /// segment ended.
    private(set) var placed = 0
    private(set) var sent = 0
    private(set) var stranded = 0

    mutating func place(_ buffer: BufferID, bytes: Int, _ placement: Segments.Placement) {
        if let size = placement.newSegmentBytes {
            if ended.contains(placement.place.segment) { complain("a segment's number is used twice") }
            sizes[placement.place.segment] = size
        }
        move(placement.moves)
        write(buffer, Image(place: placement.place, bytes: bytes))
        placed += 1
    }

    mutating func move(_ moves: [Segments.Move]) {
        for move in moves {
            guard let image = images[move.buffer], image.place == move.from else {
                complain("moves an image that is not there")
                continue
            }
            write(move.buffer, Image(place: move.to, bytes: image.bytes))
        }
    }

    private mutating func write(_ buffer: BufferID, _ image: Image) {
        guard let size = sizes[image.place.segment], image.range.upperBound <= size else {
            return complain("writes outside of a segment")
        }
        for (other, there) in images where other != buffer && there.overlaps(image) { complain("writes over \(other)") }
        if mapped.contains(where: image.overlaps) { complain("writes over an image that a client has mapped") }
        images[buffer] = image
    }

    mutating func end(_ segment: Int, isInMemory: (BufferID) -> Bool) {
        for (buffer, image) in images where image.place.segment == segment {
            if isInMemory(buffer) { complain("ends a segment with an image") }
            images[buffer] = nil
            stranded += 1
        }
        if sizes.removeValue(forKey: segment) == nil { complain("ends a segment that is not there") }
        ended.insert(segment)
    }

    /// Forgets images that are neither in memory nor leased.
    mutating func forget(where isGone: (BufferID) -> Bool) {
        for buffer in images.keys where isGone(buffer) { images[buffer] = nil }
    }

    /// The segments and images of the next process.
    func successor(keeping buffers: Set<BufferID>) -> SegmentWorld {
        var next = self
        next.known = [:]
        next.forget { !buffers.contains($0) }
        return next
    }

    /// Lets a client of another world have its segments here.
    mutating func connect(_ client: ClientID, as other: ClientID, in world: SegmentWorld) {
        known[client] = world.known[other]
    }

    mutating func connect(_ client: ClientID) { known[client] = [] }

    /// Disconnects a client that has these images mapped.
    mutating func disconnect(_ client: ClientID, keeping buffers: [BufferID]) {
        mapped += buffers.compactMap { images[$0] }.filter { known[client]?.contains($0.place.segment) == true }
        known[client] = nil
    }

    mutating func send(_ segment: Int, to client: ClientID) {
        if sizes[segment] == nil { complain("sends a segment that is not there") }
        if known[client]?.insert(segment).inserted == false { complain("sends a segment twice") }
    }

    mutating func report(endOf segment: Int, to client: ClientID) {
        if known[client]?.contains(segment) != true { complain("reports the end of an unknown segment") }
        if sizes[segment] != nil { complain("reports the end of a segment too early") }
    }

    /// Forgets the ended ones of a client's segments, as far as it was told of them.
    mutating func forgetEnded(of client: ClientID) -> [Int] {
        let gone = known[client]?.filter(ended.contains).sorted() ?? []
        known[client]?.subtract(gone)
        return gone
    }

    /// Forgets one of a client's segments.
    mutating func forgetAny(of client: ClientID) -> Int? {
        guard let segment = known[client]?.min() else { return nil }
        known[client]?.remove(segment)
        return segment
    }

    /// Checks an answer with an image in a segment.
    mutating func check(_ image: ImageReply, to client: ClientID) {
        guard let segment = image.segment, let buffer = image.buffer.map({ BufferID(number: $0) }) else { return }
        sent += 1
        if known[client]?.contains(segment) != true { complain("an image in a segment that the client does not have") }
        if images[buffer]?.place != Segments.Place(segment: segment, offset: image.offset) {
            complain("an image at another place")
        }
        if (image.segmentBytes != nil) != (image.descriptors == 1) {
            complain("the size of a segment that is not sent")
        }
        if let bytes = image.segmentBytes, bytes != sizes[segment] { complain("another size of a segment") }
    }
}

// The process of the shared tier.
extension StrictWorld {
    /// A job that it has received.
    enum TierJob: Equatable {
        case find(key: String, token: String?)
        case write(SharedRecord, BufferID?)
    }

    /// Performs an action for the shared tier; false for any other.
    func performShared(_ action: Action) -> Bool {
        switch action {
        case .findShared(let worker, let job, let key, let token):
            beginShared(.find(key: key, token: token), job, on: worker)
        case .renewLease(let worker, _, let token):
            expectReady(worker, .tier)
            if !leases.contains(token) { complain("prolongs a lease that it does not have") }
            renewals += 1
        case .releaseLease(let worker, _, let token):
            expectReady(worker, .tier)
            release(token)
        case .writeShared(let worker, let job, let record, let token, let buffer):
            if let buffer { use(buffer, "shares a buffer that is gone") }
            if (record.bytes > 0) != (buffer != nil) { complain("a record with other bytes than it states") }
            if record.expires <= unixMs { complain("a record that is of no use") }
            if let token { release(token) }
            written.append(record)
            beginShared(.write(record, buffer), job, on: worker)
        case .removeShared(let worker, let keys):
            expectReady(worker, .tier)
            removedShared += keys
        case .rejectShared(let worker, let key):
            expectReady(worker, .tier)
            rejectedShared.append(key)
        default: return false
        }
        return true
    }

    private func release(_ token: String) {
        if leases.remove(token) == nil, !lostLeases.contains(token) { complain("ends a lease that it does not have") }
    }

    private func beginShared(_ kind: TierJob, _ job: JobID, on worker: WorkerID) {
        expectReady(worker, .tier)
        if tierJobs[job] != nil { complain("a job of the shared tier begins twice") }
        tierJobs[job] = (worker, kind)
    }

    /// Takes away the jobs of an exited process.
    func endTierJobs(of worker: WorkerID) {
        if workers[worker]?.kind == .tier {
            lostLeases.formUnion(leases)
            leases = []
        }
        for (job, entry) in tierJobs where entry.worker == worker { tierJobs[job] = nil }
    }

    /// The only lookup that is unanswered.
    var sharedLookup: JobID? { tierJobs.first { if case .find = $0.value.kind { true } else { false } }?.key }

    /// Takes a lookup that is to be answered.
    private func takeLookup(_ job: JobID) -> (worker: WorkerID, key: String, token: String?)? {
        guard case (let worker, .find(let key, let token))? = tierJobs.removeValue(forKey: job) else {
            complain("no lookup")
            return nil
        }
        return (worker, key, token)
    }

    /// Answers a lookup without a record.
    func answerShared(_ job: JobID, _ answer: SharedAnswer) {
        guard let (worker, _, token) = takeLookup(job) else { return }
        if answer == .leased {
            guard let token else { return complain("a lease without a token") }
            leases.insert(token)
        }
        happen(.sharedAnswered(worker, job, answer))
    }

    /// Answers a lookup with an original, whose bytes are identified as `content` as soon as a decoder has them. The
    /// record states the digest of `stated`, and is that of another key or time if these are given.
    func findShared(
        _ job: JobID, content: Int?, stated: Int? = nil, bytes: Int = 1000, key otherKey: String? = nil,
        lifetimeMs: Int = 10_000, _ change: (inout ResponseRecord) -> Void = { _ in }
    ) {
        guard let (worker, key, _) = takeLookup(job) else { return }
        if let content, let download = state.tier.job(of: job) { expect(content, of: download) }
        let record = SharedRecord(
            key: otherKey ?? key,
            .original(digest: Self.digest(stated ?? content ?? 1), bytes: bytes, response(change), varyKey: nil),
            expires: unixMs + lifetimeMs)
        products.insert(job)
        happen(.sharedFound(worker, job, record))
    }

    /// Answers a lookup with an encoded variant.
    func findSharedVariant(_ job: JobID, _ change: (inout RasterRecord) -> Void = { _ in }) {
        guard let (worker, key, _) = takeLookup(job) else { return }
        let decode = state.tier.job(of: job).flatMap { state.decoding[$0] }
        guard let size = PixelGeometry(width: 10, height: 10) else { return }
        var raster = RasterRecord(
            original: decode?.variant.content.digest.hexadecimal ?? Self.digest(1),
            form: decode?.variant.form.ofSound.rasterWord(of: nil) ?? "",
            header: ImageHeader(format: .png, geometry: size),
            geometry: size, bytes: 100)
        change(&raster)
        products.insert(job)
        happen(.sharedFound(worker, job, SharedRecord(key: key, .variant(raster), expires: unixMs + 10_000)))
    }

    /// Answers a lookup with something that is no record.
    func findUnreadable(_ job: JobID) {
        guard let (worker, _, _) = takeLookup(job) else { return }
        happen(.sharedUnreadable(worker, job))
    }

    /// Answers a lookup with a record without bytes.
    func noteShared(_ job: JobID, _ content: SharedRecord.Content) {
        guard let (worker, key, _) = takeLookup(job) else { return }
        happen(.sharedNoted(worker, job, SharedRecord(key: key, content, expires: unixMs + 5000)))
    }

    /// Ends the writing of a record.
    func finishWriting(_ job: JobID) {
        guard case (let worker, .write)? = tierJobs.removeValue(forKey: job) else { return complain("no such write") }
        happen(.sharedWritten(worker, job))
    }
}

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
