import Digests
import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Simulates the environment of the state: clients, workers, buffers. Performs actions as the shell does, and records
/// an issue for each action that the shell could not perform.
final class StrictWorld {
    enum WorkerState: Equatable {
        case starting
        case ready
        case dying
    }

    struct Job: Equatable {
        let worker: WorkerID
        let order: DecodeJob
        /// The download whose partial body is decoded; nil for a complete original.
        var fetch: JobID?
        var plan: DecodePlan?
        var hasOutput = false
        /// The room for a result that needs no answer to its header.
        var room = 0
    }

    /// A job that the cache process has received.
    enum DiskJob: Equatable {
        case find(form: String?, keys: [String])
        case clear
        case query(keys: [String])
        case save(BufferID, OriginalRecord?)
        case forget
    }

    var state: BrokerState
    var clock = Instant(nanoseconds: 1_000_000_000)
    /// The wall-clock time in milliseconds since 1970.
    var unixMs: Int { 1_795_262_400_000 + Int(clock.nanoseconds / 1_000_000) }
    /// The default `Cache-Control` of responses.
    var cacheControl: String? = "max-age=1000000"
    /// The response metadata of records on disk; nil means that of a current response.
    var diskResponse: ResponseRecord?

    /// Open connections, with the requests that have no terminal frame yet.
    var clients: [ClientID: Set<Int>] = [:]
    /// Terminal frames by client and request.
    var answers: [ClientID: [Int: [Reply]]] = [:]
    /// Non-terminal frames.
    var news: [ClientID: [Reply]] = [:]
    /// The buffers whose descriptor each client has received.
    var descriptors: [ClientID: Set<Int>] = [:]
    var workers: [WorkerID: (kind: WorkerKind, state: WorkerState)] = [:]
    /// The families that have lost a worker, and may have a spare.
    var lostLoaders: Set<WorkerKind> = []
    /// Workers that the kernel is terminating (exiting): they receive no more jobs.
    var ending: Set<WorkerID> = []
    private var untold: [(worker: WorkerID, job: JobID)] = []
    /// Clients' requests to read the settings again, which are answered at once unless they are held.
    private var reloads: [(client: ClientID, id: Int)] = []
    var holdsReloads = false
    /// Clients' requests for an upgrade.
    var upgrades: [(client: ClientID, id: Int)] = []
    /// What that results in; nil for an error.
    var newLimits: BrokerLimits?
    var fetches: [JobID: (worker: WorkerID, order: FetchJob)] = [:]
    /// Transfers that are being stopped, and bodies whose digest is being computed.
    var stopping: [JobID: WorkerID] = [:]
    var identifying: [JobID: WorkerID] = [:]
    /// The decodings that go along with identifications.
    var early: [JobID: EarlyDecode] = [:]
    /// The room for their results.
    var earlyRooms: [JobID: Int] = [:]
    /// The formats of contents that other families than the plain one decode.
    var foreign: [Int: ImageFormat] = [:]
    /// Whether they are reported with the digest; otherwise a worker finds out by the decoding.
    var tellsFormats = true
    /// The contents of bodies that are identified as soon as they can be.
    private var contents: [JobID: Int] = [:]
    /// The quarantine records last sent to the disk tier.
    var quarantined: [QuarantineRecord]?
    var forkServersRespawned = 0
    var decodes: [JobID: Job] = [:]
    /// The end of the last partial decoding of each download.
    var partEnds: [JobID: Instant] = [:]
    /// Jobs with a processor-time query in flight.
    var measuring: [(worker: WorkerID, job: JobID)] = []
    var diskJobs: [JobID: (worker: WorkerID, kind: DiskJob)] = [:]
    /// The time that workers report for a decoding.
    var codecMicroseconds = 0
    /// The decodings that were not given their output.
    private var refused: Set<JobID> = []
    var tierJobs: [JobID: (worker: WorkerID, kind: TierJob)] = [:]
    /// The tokens of the leases that the broker has, and of those that it cannot end because their process exited.
    var leases: Set<String> = []
    var lostLeases: Set<String> = []
    var renewals = 0
    /// The records that were written to the shared tier, and the keys removed from it.
    var written: [SharedRecord] = []
    var removedShared: [String] = []
    var rejectedShared: [String] = []
    var products: Set<JobID> = []
    var buffers: Set<BufferID> = []
    /// Those that are memfds, and those that have one besides.
    var (memfds, shared): (Set<BufferID>, Set<BufferID>) = ([], [])
    var segments = SegmentWorld()
    /// Whether clients map segments that ask for the validity page.
    var mapsSegments = false
    /// The number of URLs in random histories.
    var variety = 8
    /// The number of memfds that were made of buffers in other places, and of buffers that were moved into segments.
    private(set) var (sharings, moves) = (0, 0)
    var savedRasters: [RasterRecord] = []
    /// The digests of which everything was to be removed from disk.
    var discarded: Set<String> = []
    var payloads: [(client: ClientID, buffer: BufferID)] = []
    /// The local files that a helper has, and the reads that it was ordered to do.
    var files: Set<FileID> = []
    var reading: [JobID: (file: FileID, identity: FileIdentity)] = [:]
    /// The requests of files, and the names of the contents of those that were examined.
    var fileRequests: [FileID: (client: ClientID, id: Int)] = [:]
    var fileURLs: [ClientID: [Int: SourceURL]] = [:]
    /// All originals that the disk tier has ever held.
    var onDisk: Set<String> = []
    /// The words of the validity page by slot.
    var words: [Int: ValidityWord] = [:]
    /// Replies with a slot: the same request gets the same buffer while the slot is valid.
    var named: [(client: ClientID, uid: UInt32, request: GetRequest, buffer: Int, slot: ImageReply.Slot)] = []
    /// The number of replies with a slot.
    var namings = 0
    /// The last requests that were answered with an image.
    var answered: [GetRequest] = []
    /// A client of another user than the usual one, and one of an administrator, which connect when they are needed.
    private(set) lazy var stranger = connect(uid: 2000)
    private(set) lazy var admin = connect(isAdmin: true)
    var hasExited = false
    var isListening = true
    var lastActions: [Action] = []

    /// The number of events that the fast path answered.
    private(set) var shortcuts = 0
    private var lastClient = 0
    private var requests: [ClientID: [Int: GetRequest]] = [:]

    init(_ limits: BrokerLimits = BrokerLimits(), seed: UInt64 = 1) {
        var limits = limits
        // Images have a few bytes.
        if limits.memoryBytes < 1 << 20 { limits.recordBytes = 0 }
        state = BrokerState(limits: limits, isAllowedAddress: { $0 != "10.0.0.1" }, seed: seed, at: clock)
        happen(.timePassed)
    }

    // MARK: Events

    func happen(_ event: Event, after milliseconds: Int = 0) {
        clock = clock.adding(milliseconds: milliseconds)
        let shortcut = Shortcut(state, event, at: clock)
        state.repeatable = shortcut?.repeatable
        lastActions = state.handle(event, at: clock, unixMs: unixMs)
        if let shortcut {
            if let broken = shortcut.difference(from: state, lastActions) { complain("the fast path: \(broken)") }
            if shortcut.isTaken { shortcuts += 1 }
        }
        if segments.placed > 0 {
            let (present, held) = (buffers, state.clients.holdings)
            segments.forget { !present.contains($0) && held[$0] == nil }
        }
        for action in lastActions { perform(action) }
        if !holdsReloads, let requester = reloads.popLast() {
            return happen(.reloaded(reconfiguration, for: requester))
        }
        if let (worker, job) = untold.popLast() { return happen(.workerExiting(worker, job)) }
        check(event)
        for job in identifying.keys.sorted() {
            if let content = contents.removeValue(forKey: job) { identify(job, content: content) }
        }
    }

    private var reconfiguration: Result<Reconfiguration, WireError> {
        guard let newLimits else { return .failure(WireError(.badRequest, "The file has an error.")) }
        return .success(
            Reconfiguration(
                limits: newLimits, isAllowedAddress: { $0 != "10.0.0.2" }, replacesFetchers: true,
                report: ReloadReport()))
    }

    private func check(_ event: Event) {
        if let broken = state.brokenInvariant() { complain("after \(event): \(broken)") }
        let known = Set(state.memory.bufferIDs).union(state.removedInUse).union(state.downloads.completeBodies)
        for buffer in state.memory.bufferIDs
        where state.memory.hasMemfd(buffer) != (memfds.contains(buffer) || shared.contains(buffer)) {
            complain("after \(event): the memfd of \(buffer)")
        }
        if known != buffers { complain("after \(event): buffers \(buffers) are not those known: \(known)") }
        checkPage(after: event)
        checkOriginals(after: event)
        checkFiles(after: event)
        let resumed = state.downloads.active.filter { $0.value.transfer == nil && $0.value.resumption != nil }.keys
        let kept = Set(state.downloads.keptBodyJobs).union(stopping.keys).union(reading.keys).union(resumed)
        let decoded = decodes.filter { $0.value.hasOutput || $0.value.room > 0 }.keys
        let unfinished = kept.union(fetches.keys).union(decoded).union(early.keys)
        if products != unfinished { complain("after \(event): unfinished products \(products) of no job") }
    }

    func connect(uid: UInt32 = 1000, isAdmin: Bool = false) -> ClientID {
        lastClient += 1
        let client = ClientID(number: lastClient)
        clients[client] = []
        descriptors[client] = []
        segments.connect(client)
        // Two users have one mount namespace, as is usual.
        happen(.clientConnected(client, uid: uid, isAdmin: isAdmin, namespace: mapsSegments ? .max : nil))
        if state.clients[client] == nil {
            // Refused: the client gets an error and its connection is closed.
            if lastActions.count(where: { $0 == .close(client) }) != 1 { complain("an unknown client") }
            clients[client] = nil
            descriptors[client] = nil
            happen(.clientDisconnected(client))
        }
        return client
    }

    func disconnect(_ client: ClientID, isForced: Bool = false) {
        clients[client] = nil
        let leased = descriptors.removeValue(forKey: client) ?? []
        payloads.removeAll { $0.client == client }
        segments.disconnect(client, keeping: isForced ? leased.map { BufferID(number: $0) } : [])
        happen(.clientDisconnected(client, isForced: isForced))
    }

    func get(
        _ client: ClientID, id: Int, _ path: String, of host: String = "origin.test",
        _ change: (inout GetOptions) -> Void = { _ in }
    ) {
        guard let url = try? SourceURL("http://\(host)/\(path)") else { return complain("bad URL \(path)") }
        let request = GetRequest(id: id, url: url, options: with(GetOptions(), change))
        begin(request, of: client)
        happen(.messageReceived(client, .get(request)))
    }

    /// Makes all starting workers ready, and returns this world as it is then.
    @discardableResult func readyAll(build: String = "first") -> StrictWorld {
        for (id, worker) in workers.sorted(by: { $0.key < $1.key }) where worker.state == .starting {
            workers[id]?.state = .ready
            happen(.workerReady(id, SandboxReport(seccomp: true, landlock: 7), build: build))
        }
        return self
    }

    /// Returns an origin's response at the current time.
    func response(status: Int = 200, _ change: (inout ResponseRecord) -> Void = { _ in }) -> ResponseRecord {
        let response = ResponseRecord(
            status: status, requestedAt: unixMs, receivedAt: unixMs, cacheControl: cacheControl)
        return with(response, change)
    }

    /// Reports the response header of a transfer, by default of a resumable body.
    func respond(_ job: JobID, status: Int = 200, validator: String? = "\"v\"", total: Int? = nil) {
        guard let (worker, _) = fetches[job] else { return complain("no such fetch") }
        happen(.fetchResponded(worker, job, response(status: status), validator: validator, total: total))
    }

    /// Reports that a part of a body was received.
    func progress(_ job: JobID, received: Int, expected: Int? = nil, after milliseconds: Int = 0) {
        guard let (worker, _) = fetches[job] else { return complain("no such fetch") }
        happen(.fetchProgressed(worker, job, received: received, expected: expected), after: milliseconds)
    }

    /// Reports the response header of a transfer, and that a part of its body was received.
    func receive(
        _ job: JobID, _ received: Int, of total: Int? = nil, validator: String? = "\"v\"", after milliseconds: Int = 0
    ) {
        respond(job, validator: validator, total: total)
        progress(job, received: received, expected: total, after: milliseconds)
    }

    func confirm(_ job: JobID, _ change: (inout ResponseRecord) -> Void = { _ in }) {
        guard let (worker, order) = fetches.removeValue(forKey: job) else { return complain("no such fetch") }
        if order.conditions == nil { complain("a 304 without a condition") }
        let confirmation = FetchConfirmation(response: response(status: 304, change), remoteAddress: "192.0.2.1")
        happen(.fetchNotModified(worker, job, confirmation))
    }

    func endStopping(_ job: JobID, received: Int) {
        guard let worker = stopping.removeValue(forKey: job) else { return complain("no such transfer") }
        happen(.fetchStopped(worker, job, received: received))
    }

    /// Reports a digest; with a width, also the result of the decoding that goes along, of a square image.
    func identify(_ job: JobID, content: Int, earlyWidth: Int? = nil) {
        guard let worker = identifying.removeValue(forKey: job) else { return complain("no such bytes") }
        let decode = early.removeValue(forKey: job)
        let room = earlyRooms.removeValue(forKey: job)
        var result: EarlyResult?
        if let width = earlyWidth, foreign[content] == nil {
            guard let order = decode?.job, let size = PixelGeometry(width: width, height: width),
                let plan = order.transform.plan(for: size)
            else { return complain("no early decoding") }
            // Of an image that does not fit, only the digest is reported.
            let bytes = plan.result.bytes(in: order.transform.pixelFormat)
            if bytes <= room ?? 0 {
                let header = ImageHeader(format: .png, geometry: size)
                result = EarlyResult(
                    DecodePlan(header: header, result: plan.result, workingBytes: 0),
                    DecodeResult(bytes: bytes))
            }
        }
        happen(
            .identified(
                worker, job, digest: Self.digest(content), early: result, format: tellsFormats ? foreign[content] : nil)
        )
    }

    /// The format of the bytes that a job decodes, if another family than the plain one decodes them.
    private func foreignFormat(of job: JobID) -> ImageFormat? {
        guard let content = state.decoding[job]?.variant.content, content.pixels == nil else { return nil }
        return foreign.first { Self.digest($0.key) == content.digest.hexadecimal }?.value
    }

    static func digest(_ content: Int) -> String {
        let text = String(content, radix: 16)
        return String(repeating: "0", count: 64 - text.count) + text
    }

    /// Finishes a fetch. Its bytes are identified as `content` as soon as a decoder has them; without content, only by
    /// `identify`.
    func finishFetch(
        _ job: JobID, content: Int?, bytes: Int = 1000, from address: String = "192.0.2.1",
        _ change: (inout ResponseRecord) -> Void = { _ in }
    ) {
        guard let (worker, _) = fetches.removeValue(forKey: job) else { return complain("no such fetch") }
        contents[job] = content
        let result = FetchResult(bytes: bytes, response: response(change), remoteAddress: address)
        happen(.fetchFinished(worker, job, result))
    }

    func failFetch(_ job: JobID, _ code: ErrorCode = .connectFailed) {
        guard let (worker, _) = fetches.removeValue(forKey: job) else { return complain("no such fetch") }
        happen(.fetchFailed(worker, job, FetchFailure(WireError(code, "It failed."))))
    }

    func failFetch(
        _ job: JobID, status: Int, retryAfterMs: Int? = nil, _ change: (inout ResponseRecord) -> Void = { _ in }
    ) {
        guard let (worker, _) = fetches.removeValue(forKey: job) else { return complain("no such fetch") }
        let error = WireError(.httpStatus, "It answered \(status).", httpStatus: status, retryAfterMs: retryAfterMs)
        let response = response(status: status) {
            $0.cacheControl = nil
            change(&$0)
        }
        happen(.fetchFailed(worker, job, FetchFailure(error, response: response)))
    }

    /// Cuts the body short after `received` bytes.
    func cutFetch(_ job: JobID, received: Int) {
        guard let (worker, _) = fetches.removeValue(forKey: job) else { return complain("no such fetch") }
        happen(.fetchFailed(worker, job, FetchFailure(WireError(.transferFailed, "Cut short."), received: received)))
    }

    /// With `isAtOnce`, the worker goes on and reports the result, if it fits the room that came with the order.
    func readHeader(
        _ job: JobID, width: Int = 10, height: Int = 10, frames: Int = 1, workingBytes: Int = 0, stage: Int = 1,
        lengths: MetadataLengths? = MetadataLengths(exif: 20, icc: 30), isAtOnce: Bool = false
    ) {
        guard let decode = decodes[job], var geometry = PixelGeometry(width: width, height: height) else {
            return complain("no such decoding")
        }
        if let format = foreignFormat(of: job), workers[decode.worker]?.kind == .decode {
            decodes[job] = nil
            return happen(.decodeForeign(decode.worker, job, format))
        }
        let family = workers[decode.worker]?.kind.family ?? .plain
        let format = family.formats.contains(.png) ? .png : family.formats[0]
        var header = ImageHeader(format: format, geometry: geometry, frameCount: frames)
        if let pixels = decode.order.pixels { (header, geometry) = (pixels.header, pixels.geometry) }
        let frames = header.frameCount
        if header.count(of: decode.order.transform.frames, as: decode.order.encoding) == 0 {
            return failDecode(job, .badRequest)
        }
        if let lengths, decode.order.purpose == .header || !decode.order.transform.metadata.isEmpty {
            header.facts = ImageFacts()
            header.facts?.metadata = lengths
        }
        if decode.fetch != nil, decode.order.purpose == .header { header.format = .jpeg }
        let plan = DecodePlan(
            header: header,
            result: decode.order.purpose == .header
                ? geometry : decode.order.transform.plan(for: geometry, frameCount: frames)?.result ?? geometry,
            workingBytes: workingBytes, stage: decode.fetch == nil ? nil : stage)
        if decode.room > 0 {
            let isFitting = plan.outputBytes(decode.order.transform, decode.order.encoding) <= decode.room
            if isAtOnce, isFitting, let decode = endDecode(job) {
                return happen(.decodedAtOnce(decode.worker, job, EarlyResult(plan, result(of: decode.order, plan))))
            }
        }
        decodes[job]?.plan = plan
        let hasResult = decode.fetch == nil && plan.metadataBytes(decode.order.transform.metadata) > 0
        if decode.order.purpose == .describe || decode.order.purpose == .header && !hasResult { decodes[job] = nil }
        happen(.headerRead(decode.worker, job, plan))
    }

    /// Finishes a decoding: with all pixels, or with an encoded image of 100 bytes.
    func finishDecode(_ job: JobID, damage: String? = nil, isPreview: Bool = false) {
        guard let decode = endDecode(job), let plan = decode.plan else { return complain("no such decoding") }
        let result = result(of: decode.order, plan, damage: damage, isPreview: isPreview)
        happen(.decodeFinished(decode.worker, job, result))
    }

    private func result(
        of order: DecodeJob, _ plan: DecodePlan, damage: String? = nil, isPreview: Bool = false
    ) -> DecodeResult {
        let blocks = plan.metadataBytes(order.transform.metadata)
        var result = DecodeResult(
            bytes: order.purpose == .header
                ? blocks : order.encoding == nil ? plan.outputBytes(order.transform, nil) : 100 + blocks)
        result.isPreview = isPreview
        if order.transform.frames.hasTiming {
            let delays = Array(repeating: 100, count: plan.header.frameCount)
            result.timing = AnimationTiming(delaysMs: delays, loops: 0)
        }
        result.times.codec = codecMicroseconds
        if order.wantsPlaceholder, !isPreview {
            result.placeholder = Placeholder(averageColor: "#102030", thumbHash: "AAECAwQF")
        }
        result.damage = damage
        return result
    }

    func failDecode(_ job: JobID, _ code: ErrorCode = .decodeFailed) {
        guard let decode = endDecode(job) else { return complain("no such decoding") }
        happen(.decodeFailed(decode.worker, job, WireError(code, "It failed.")))
    }

    private func endDecode(_ job: JobID) -> Job? {
        let decode = decodes.removeValue(forKey: job)
        if let fetch = decode?.fetch { partEnds[fetch] = clock }
        return decode
    }

    /// Answers a job of the cache process: `content` identifies the original found, nil means a miss.
    func answerDiskJob(_ job: JobID, content: Int?, bytes: Int = 1000, asRaster: Bool = false) {
        guard let (worker, kind) = diskJobs.removeValue(forKey: job) else { return complain("no such disk job") }
        switch kind {
        case .save(_, let record):
            if let record, content != nil { noteOnDisk(key: record.key, digest: record.digest) }
            happen(.savesFinished(worker, [job], isSaved: content != nil))
        case .query(let keys):
            let record = content.map { original($0, key: keys.last ?? "", url: "", bytes: bytes) }
            happen(.diskQueried(worker, job, record))
        case .clear: happen(.cleared(worker, job, removed: 1, bytes: 1000))
        case .forget: happen(.forgotten(worker, job, keys: []))
        case .find(let form, let keys):
            guard let content, let lookup = state.disk[job] else { return happen(.notFound(worker, job)) }
            // Under the last key, the shared one, as the broker stores originals.
            guard let key = lookup.keys.last(where: { keys.contains($0.word) }) else {
                return complain("a lookup for another key")
            }
            var record = original(content, key: key.word, url: key.url.text, bytes: bytes)
            record.owner = key.owner
            if key.url.isFile { record.digest = key.fileDigest.hexadecimal }
            noteOnDisk(key: record.key, digest: record.digest)
            products.insert(job)
            guard asRaster, let form, let size = PixelGeometry(width: 10, height: 10),
                let transform = lookup.key.form.transform, let result = transform.plan(for: size)?.result
            else { return happen(.foundOriginal(worker, job, record)) }
            let header = ImageHeader(format: .png, geometry: size)
            let length = result.bytes(in: transform.pixelFormat)
            let raster = RasterRecord(
                original: record.digest, form: form, header: header, geometry: result, bytes: length)
            happen(.foundRaster(worker, job, record, raster))
        }
    }

    /// A record of an original on disk.
    func original(_ content: Int, key: String, url: String, bytes: Int = 1000) -> OriginalRecord {
        OriginalRecord(
            key: key, url: url, owner: nil, digest: Self.digest(content), bytes: bytes,
            response: diskResponse ?? response())
    }

    private func isSmall(_ job: JobID) -> Bool {
        let most = state.limits.earlyBodyBytes
        if let decode = state.decoding[job] {
            let form = decode.variant.form
            return decode.bodyBytes <= most && form.encoding == nil && form.transform?.frames == .one(0)
        }
        return decodes[job] == nil && state.downloads[job].map { $0.received <= most } ?? true
    }

    func endWorker(_ worker: WorkerID, _ exit: WorkerExit) {
        endTierJobs(of: worker)
        if let kind = workers[worker]?.kind, case .loader = kind { lostLoaders.insert(kind) }
        workers[worker] = nil
        ending.remove(worker)
        for (job, fetch) in fetches where fetch.worker == worker { fetches[job] = nil }
        for (job, decode) in decodes where decode.worker == worker { _ = endDecode(job) }
        for (job, owner) in stopping where owner == worker { stopping[job] = nil }
        for (job, identifier) in identifying where identifier == worker {
            identifying[job] = nil
            (early[job], earlyRooms[job]) = (nil, nil)
        }
        for (job, request) in diskJobs where request.worker == worker { diskJobs[job] = nil }
        happen(.workerExited(worker, exit))
    }

    /// Returns the only answer to a request; records an issue and returns nil for none or several.
    func answer(_ client: ClientID, _ id: Int) -> Reply? {
        let all = answers[client]?[id] ?? []
        if all.count != 1 { complain("\(all.count) answers to request \(id)") }
        return all.first
    }

    func image(_ client: ClientID, _ id: Int) -> ImageReply? {
        guard case .image(_, let image)? = answer(client, id) else { return nil }
        return image
    }

    /// The error that was the only answer to a request.
    func failure(_ client: ClientID, _ id: Int) -> WireError? {
        guard case .error(_, let error)? = answer(client, id) else { return nil }
        return error
    }

    func error(_ client: ClientID, _ id: Int) -> ErrorCode? { failure(client, id)?.code }

    // MARK: Actions

    /// Lets the bytes of a download be identified as `content` as soon as they can be.
    func expect(_ content: Int, of job: JobID) { contents[job] = content }

    private func perform(_ action: Action) {
        if performShared(action) { return }
        switch action {
        case .reply(let client, let reply, let attachment): take(reply, attachment, for: client)
        case .close(let client): if clients[client] == nil { complain("closes a connection that is gone") }
        case .startWorker(let kind, let worker):
            if case .loader(let family) = kind, !lostLoaders.contains(kind) {
                #expect(state.decoding.queued(of: family) > 0, "a worker of a family that no job waits for")
            }
            if workers[worker] != nil { complain("a worker's number is used twice") }
            workers[worker] = (kind, .starting)
        case .killWorker(let worker):
            // The worker may have exited at the same time.
            workers[worker]?.state = .dying
        case .startFetch(let worker, let order):
            expectReady(worker, .fetch)
            let job = JobID(number: order.id)
            if fetches[job] != nil { complain("a fetch begins twice") }
            if products.contains(job) != (order.resumption != nil) { complain("a continued body that does not exist") }
            if order.resumption != nil, order.conditions != nil { complain("a part and a condition") }
            if isEnding(worker, for: job) { break }
            fetches[job] = (worker, order)
            products.insert(job)
        case .stopFetch(let worker, let job):
            if fetches[job]?.worker != worker { complain("stops a fetch that does not run there") }
            fetches[job] = nil
            if state.downloads.isStopping(job) { stopping[job] = worker }
        case .identify(let worker, let job, let buffer, let decode, let room):
            expectReady(worker, .decode)
            use(buffer, "identifies a buffer that is gone")
            expectRoom(for: job, on: worker)
            if isEnding(worker, for: job) { break }
            identifying[job] = worker
            (early[job], earlyRooms[job]) = (decode, room)
            if decode != nil { products.insert(job) }
        case .clear(let worker, let job, _): begin(.clear, job, on: worker)
        case .discardOnDisk(let worker, let job, let digests):
            discarded.formUnion(digests)
            begin(.forget, job, on: worker)
        case .place(let job, let buffer, let bytes, let placement):
            if products.remove(job) == nil { complain("publishes a product that does not exist") }
            if !buffers.insert(buffer).inserted { complain("a buffer's number is used twice") }
            segments.place(buffer, bytes: bytes, placement)
        case .moveIntoSegment(let buffer, let placement):
            use(buffer, "moves a buffer that is gone")
            if memfds.contains(buffer) { complain("moves a memfd into a segment") }
            segments.place(buffer, bytes: state.memory.record(of: buffer)?.bytes ?? 0, placement)
            moves += 1
        case .move(let moves): segments.move(moves)
        case .endSegment(let number): segments.end(number) { state.memory.record(of: $0) != nil }
        case .adopt(_, let buffer, let inBroker): publish(buffer, inBroker: inBroker)
        case .startDecode(let worker, let order, let body, let room):
            let job = JobID(number: order.id)
            let family = state.decoding[job]?.family ?? .plain
            expectReady(worker, .decoder(of: family))
            if family != .plain {
                if !state.limits.families.contains(family) { complain("a family that is not installed") }
                let hasLoader = decodes.values.contains { workers[$0.worker]?.kind.family ?? .plain != .plain }
                let isFull = decodes.count > state.limits.workers
                if hasLoader, isFull { complain("a decoding beyond the places of --workers") }
            }
            use(body, "decodes bytes that are gone")
            let hasFailed = refused.contains(job) || state.decoding[job]?.crashes ?? 0 > 0
            expectRoom(for: job, on: worker, isAlone: room == 0 || hasFailed)
            if order.partialBytes != nil { complain("a partial decoding of a complete original") }
            if isEnding(worker, for: job) { break }
            decodes[job] = Job(worker: worker, order: order, room: room)
            if room > 0 { products.insert(job) }
        case .startPartialDecode(let worker, let order, let fetch): startPart(order, of: fetch, on: worker)
        case .provideOutput(let worker, let job, let bytes, let isExact):
            if isExact != (decodes[job]?.order.encoding == nil) { complain("an output of a strange size") }
            if decodes[job]?.worker != worker || bytes <= 0 { complain("output for a job that does not run there") }
            decodes[job]?.hasOutput = true
            products.insert(job)
        case .refuseOutput(_, let job):
            refused.insert(job)
            _ = endDecode(job)
        case .measureProcessorTime(let worker, let job):
            #expect((decodes[job]?.worker ?? identifying[job]) == worker, "the time of a job that does not run there")
            measuring.append((worker, job))
        case .retireWorker(let worker):
            let busy =
                [fetches.values.map(\.worker), decodes.values.map(\.worker), Array(stopping.values)]
                + [Array(identifying.values), diskJobs.values.map(\.worker), tierJobs.values.map(\.worker)]
            if busy.joined().contains(worker) { complain("retires a busy worker") }
            workers[worker]?.state = .dying
        case .respawnForkServer: forkServersRespawned += 1
        case .find(let worker, let job, let keys, let form, _):
            begin(.find(form: form, keys: keys), job, on: worker)
        case .touch(let worker, _), .update(let worker, _): expectReady(worker, .cache)
        case .saveQuarantine(let worker, let records):
            expectReady(worker, .cache)
            quarantined = records
        case .queryDisk(let worker, let job, let keys): begin(.query(keys: keys), job, on: worker)
        case .saveRaster(let worker, let job, let record, let buffer):
            savedRasters.append(record)
            use(buffer, "saves a buffer that is gone")
            begin(.save(buffer, nil), job, on: worker)
        case .saveOriginal(let worker, let job, let record, let buffer):
            use(buffer, "saves a buffer that is gone")
            begin(.save(buffer, record), job, on: worker)
        case .saveIdentity(let worker, let job, let record, let text):
            if record.bytes != text.utf8.count { complain("saves an identity of another length") }
            begin(.save(BufferID(number: 0), record), job, on: worker)
        case .readFile(let job, let file, let identity):
            if !files.contains(file) { complain("reads a file that was given up") }
            if !products.insert(job).inserted { complain("reads twice at once") }
            reading[job] = (file, identity)
        case .releaseFile(let file): if files.remove(file) == nil { complain("gives up a file twice") }
        case .forget(let worker, let job, _, _): begin(.forget, job, on: worker)
        case .publish(let job, let buffer, let inBroker):
            if products.remove(job) == nil { complain("publishes a product that does not exist") }
            publish(buffer, inBroker: inBroker)
        case .discard(let job):
            products.remove(job)
            // The helper's result is not waited for.
            reading[job] = nil
        case .dropBuffer(let buffer):
            if buffers.remove(buffer) == nil { complain("drops a buffer twice") }
            memfds.remove(buffer)
            shared.remove(buffer)
            if segments.placed > 0, state.clients.holdings[buffer] == nil { segments.forget { $0 == buffer } }
        case .share(let buffer):
            use(buffer, "shares a buffer that is gone")
            if memfds.contains(buffer) || !shared.insert(buffer).inserted { complain("a second memfd of \(buffer)") }
            sharings += 1
        case .unshare(let buffer):
            if shared.remove(buffer) == nil { complain("closes a memfd that is not there") }
        case .updateValidity(let changes):
            if lastActions.first != action { complain("the page is written too late") }
            for change in changes {
                words[change.slot] = ValidityWord(generation: change.generation, validUntil: change.validUntil)
            }
        case .findShared, .renewLease, .releaseLease, .writeShared, .removeShared, .rejectShared: break
        case .stopListening: isListening = false
        case .reload(let client, let id): reloads.append((client, id))
        case .upgrade(let client, let id): upgrades.append((client, id))
        case .exit: hasExited = true
        case .log: break
        }
    }

    func use(_ buffer: BufferID, _ complaint: Comment) { if !buffers.contains(buffer) { complain(complaint) } }

    /// One that has left the memory by now gets a memfd for its answer alone.
    private func expectMemfd(_ buffer: BufferID) {
        use(buffer, "sends a buffer that is gone")
        let hasMemfd = memfds.contains(buffer) || shared.contains(buffer)
        if state.memory.record(of: buffer) != nil, !hasMemfd { complain("sends a memfd that is not there") }
    }

    /// A decoder has several jobs only if all of them are about small bodies, and are expected to end at once.
    private func expectRoom(for job: JobID, on worker: WorkerID, isAlone: Bool = false) {
        let others =
            Array(identifying.filter { $0.value == worker }.keys)
            + decodes.filter { $0.value.worker == worker }.keys
        if others.isEmpty { return }
        if others.count >= state.limits.briefJobs { complain("too many small bodies for one decoder") }
        let areAtOnce = others.allSatisfy { decodes[$0].map { $0.room > 0 && $0.plan == nil } ?? true }
        if isAlone || !areAtOnce || !isSmall(job) || !others.allSatisfy(isSmall) {
            complain("a second job for a busy decoder")
        }
    }

    private func publish(_ buffer: BufferID, inBroker: Bool) {
        if !buffers.insert(buffer).inserted { complain("a buffer's number is used twice") }
        if !inBroker { memfds.insert(buffer) }
    }

    private func isEnding(_ worker: WorkerID, for job: JobID) -> Bool {
        guard ending.contains(worker) else { return false }
        untold.append((worker, job))
        return true
    }

    private func startPart(_ order: DecodeJob, of fetch: JobID, on worker: WorkerID) {
        expectReady(worker, .decode)
        if decodes.values.contains(where: { $0.worker == worker }) { complain("a part for a busy decoder") }
        if decodes.values.contains(where: { $0.fetch == fetch }) { complain("two partial decodings of one download") }
        #expect(fetches[fetch] != nil && products.contains(fetch), "parts of a download that does not run")
        if order.partialBytes != state.downloads[fetch]?.received { complain("bytes that did not come") }
        let pause = order.purpose == .header ? 20 : 200
        if let end = partEnds[fetch] { #expect(clock >= end.adding(milliseconds: pause), "parts too near") }
        if order.transform.frames != .one(0) || order.encoding != nil { complain("more than pixels of a part") }
        if isEnding(worker, for: JobID(number: order.id)) { return }
        decodes[JobID(number: order.id)] = Job(worker: worker, order: order, fetch: fetch)
    }

    private func begin(_ kind: DiskJob, _ job: JobID, on worker: WorkerID) {
        expectReady(worker, .cache)
        if diskJobs[job] != nil { complain("a disk job begins twice") }
        diskJobs[job] = (worker, kind)
    }

    func expectReady(_ worker: WorkerID, _ kind: WorkerKind) {
        if workers[worker]?.kind != kind || workers[worker]?.state != .ready { complain("a job for no ready \(kind)") }
    }

    func begin(_ request: GetRequest, of client: ClientID) {
        clients[client]?.insert(request.id)
        requests[client, default: [:]][request.id] = request
    }

    private func take(_ reply: Reply, _ attachment: Action.Attachment, for client: ClientID) {
        guard clients[client] != nil else { return complain("a reply to an unknown client") }
        switch attachment {
        case .nothing: break
        case .segment(let segment): segments.send(segment, to: client)
        case .page: if state.limits.validitySlots == 0 { complain("sends a page without slots") }
        case .descriptor(let buffer):
            expectMemfd(buffer)
            descriptors[client]?.insert(buffer.number)
        case .payload(let buffer, _, _):
            expectMemfd(buffer)
            payloads.append((client, buffer))
        }
        if case .image(_, let image) = reply, let buffer = image.buffer {
            segments.check(image, to: client)
            if image.segment != nil { descriptors[client]?.insert(buffer) }
            #expect(descriptors[client]?.contains(buffer) == true, "the client does not have the descriptor")
            #expect(image.descriptors == (attachment == .nothing ? 0 : 1))
            if let slot = image.slot, let uid = state.clients[client]?.uid, let id = reply.id,
                var request = requests[client]?[id]
            {
                if let url = fileURLs[client]?[id] { request.url = url }
                if state.clients[client]?.hasPage != true { complain("sends a slot to a client without the page") }
                named.append((client, uid, request, buffer, slot))
                namings += 1
            }
        }
        if case .segmentEnded(let segment) = reply { segments.report(endOf: segment, to: client) }
        guard let id = reply.id else { return }
        if case .image = reply {
            if let request = requests[client]?[id] { answered = answered.suffix(3) + [request] }
            #expect(clients[client]?.contains(id) == true, "an image for a request that has ended")
        }
        if !reply.isTerminal { return news[client, default: []].append(reply) }
        // Only gets are tracked here; other messages may use the same ids.
        if clients[client]?.remove(id) != nil {
            answers[client, default: [:]][id, default: []].append(reply)
        } else if case .image = reply {
            complain("a second answer to request \(id)")
        }
    }
}

func complain(_ comment: Comment, at location: SourceLocation = #_sourceLocation) {
    Issue.record(comment, sourceLocation: location)
}
