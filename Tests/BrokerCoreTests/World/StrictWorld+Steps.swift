import Digests
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

// Steps that most tests take.
extension StrictWorld {
    static func starting(_ change: (inout BrokerLimits) -> Void = { _ in }) -> StrictWorld {
        StrictWorld(with(BrokerLimits(), change))
    }

    static func ready(_ change: (inout BrokerLimits) -> Void = { _ in }) -> StrictWorld { starting(change).readyAll() }

    /// Returns a world whose workers are ready, and whose disk tier is on.
    static func withDisk(_ change: (inout BrokerLimits) -> Void = { _ in }) -> StrictWorld {
        let world = ready {
            $0.usesDisk = true
            change(&$0)
        }
        world.happen(.diskReported(DiskReport(state: .on)))
        return world
    }

    /// Returns this world with one more client, and the client.
    func connected(uid: UInt32 = 1000, isAdmin: Bool = false) -> (StrictWorld, ClientID) {
        let client = connect(uid: uid, isAdmin: isAdmin)
        return (self, client)
    }

    /// Lets time pass, and returns this world as it is then.
    func after(_ milliseconds: Int) -> StrictWorld {
        happen(.timePassed, after: milliseconds)
        return self
    }

    /// Lets time pass, and makes all starting workers ready.
    @discardableResult func readyAll(after milliseconds: Int) -> StrictWorld { after(milliseconds).readyAll() }

    /// Ends a worker and makes its successors ready, the ones that start after a time too.
    func replaceWorker(_ worker: WorkerID, _ exit: WorkerExit, after milliseconds: Int? = nil) {
        endWorker(worker, exit)
        if let milliseconds { happen(.timePassed, after: milliseconds) }
        readyAll()
    }

    /// Ends the workers that are to be killed, or to exit.
    func endDying(_ exit: () -> WorkerExit) {
        for worker in workers.filter({ $0.value.state == .dying }).keys.sorted() { endWorker(worker, exit()) }
    }

    /// Lets the worker of the first decoding report something, and expects that it is killed for that.
    func expectKilled(
        at location: SourceLocation = #_sourceLocation, _ report: (WorkerID, JobID) throws -> Event
    ) throws {
        let (job, decode) = try #require(decodes.first, sourceLocation: location)
        happen(try report(decode.worker, job))
        #expect(workers[decode.worker]?.state == .dying, sourceLocation: location)
    }

    /// Returns the first worker of a kind.
    func worker(_ kind: WorkerKind, at location: SourceLocation = #_sourceLocation) throws -> WorkerID {
        try #require(workers.filter { $0.value.kind == kind }.keys.min(), sourceLocation: location)
    }

    /// Lets a worker break the protocol and exit.
    func endMisbehaving(_ worker: WorkerID) {
        happen(.workerMisbehaved(worker, "nonsense"))
        endWorker(worker, .ended(.signal(9)))
    }

    /// Releases a lease. The client forgets its descriptor with its last one.
    func release(_ buffer: Int, of client: ClientID) {
        happen(.messageReceived(client, .release(buffers: [buffer])))
        if !state.clients.holds(client, BufferID(number: buffer)) { descriptors[client]?.remove(buffer) }
    }

    /// Cancels a request, and returns this world as it is then.
    @discardableResult func cancel(_ client: ClientID, _ request: Int) -> StrictWorld {
        happen(.messageReceived(client, .cancel(id: 1 << 41, request: request)))
        return self
    }

    /// Sends a request other than a `get` whose answer is kept.
    func ask(_ client: ClientID, id: Int, _ message: ClientMessage) {
        clients[client]?.insert(id)
        happen(.messageReceived(client, message))
    }

    /// The replies to a client that the last event led to.
    func lastReplies(to client: ClientID) -> [Reply] {
        lastActions.compactMap { if case .reply(client, let reply, _) = $0 { reply } else { nil } }
    }

    /// The first error that the last event led to for a client, with a number or, at nil, without.
    func lastError(_ id: Int?, to client: ClientID) -> ErrorCode? {
        for case .error(id, let error) in lastReplies(to: client) { return error.code }
        return nil
    }

    /// The lines of the log that the last event led to.
    var lastLines: [LogRecord] { lastActions.compactMap { if case .log(let record) = $0 { record } else { nil } } }

    /// Sends a request about one URL of the usual origin.
    func remove(_ client: ClientID, id: Int, _ path: String) throws {
        happen(.messageReceived(client, .remove(id: id, url: try SourceURL("http://origin.test/\(path)"))))
    }

    func query(_ client: ClientID, id: Int, _ path: String, _ change: (inout GetOptions) -> Void = { _ in }) throws {
        let url = try SourceURL("http://origin.test/\(path)")
        happen(.messageReceived(client, .query(GetRequest(id: id, url: url, options: with(GetOptions(), change)))))
    }

    func store(_ client: ClientID, id: Int, _ path: String, bytes: Int) throws {
        let url = try SourceURL("http://origin.test/\(path)")
        happen(.storeReceived(client, StoreRequest(id: id, url: url, payload: 0), bytes: bytes))
    }

    /// Releases one lease of an image that a request got.
    func releaseImage(_ client: ClientID, _ id: Int, at location: SourceLocation = #_sourceLocation) throws {
        let buffer = try #require(image(client, id)?.buffer, sourceLocation: location)
        happen(.messageReceived(client, .release(buffers: [buffer])))
    }

    /// Requests images of the usual origin that have these names.
    func prefetch(
        _ client: ClientID, id: Int, _ paths: ClosedRange<Int>, _ change: (inout PrefetchRequest) -> Void = { _ in }
    ) throws {
        let urls = try paths.map { try SourceURL("http://origin.test/\($0)") }
        happen(.messageReceived(client, .prefetch(with(PrefetchRequest(id: id, urls: urls), change))))
    }

    /// Requests an image, and fails the first transfer.
    func refuse(
        _ client: ClientID, id: Int, _ path: String, status: Int, at location: SourceLocation = #_sourceLocation,
        _ change: (inout GetOptions) -> Void = { _ in }, response: (inout ResponseRecord) -> Void = { _ in }
    ) throws {
        get(client, id: id, path, change)
        failFetch(try #require(fetches.keys.first, sourceLocation: location), status: status, response)
    }

    /// Requests an image, and confirms the cached one.
    func confirm(
        _ client: ClientID, id: Int, _ path: String, at location: SourceLocation = #_sourceLocation,
        _ change: (inout GetOptions) -> Void = { _ in }, response: (inout ResponseRecord) -> Void = { _ in }
    ) throws {
        get(client, id: id, path, change)
        confirm(try #require(fetches.keys.first, sourceLocation: location), response)
    }

    /// Requests an image, and returns it; nil for an error. Records an issue without an answer.
    func getImage(
        _ client: ClientID, id: Int, _ path: String, of host: String = "origin.test",
        _ change: (inout GetOptions) -> Void = { _ in }
    ) -> ImageReply? {
        get(client, id: id, path, of: host, change)
        return image(client, id)
    }

    /// Requests an image, and returns the code of the error; nil for an image. Records an issue without an answer.
    func getError(
        _ client: ClientID, id: Int, _ path: String, of host: String = "origin.test",
        _ change: (inout GetOptions) -> Void = { _ in }
    ) -> ErrorCode? {
        get(client, id: id, path, of: host, change)
        return error(client, id)
    }

    /// Finishes the first transfer.
    func finishFetch(
        content: Int?, bytes: Int = 1000, from address: String = "192.0.2.1",
        at location: SourceLocation = #_sourceLocation,
        _ change: (inout ResponseRecord) -> Void = { _ in }
    ) throws {
        let job = try #require(fetches.keys.first, sourceLocation: location)
        finishFetch(job, content: content, bytes: bytes, from: address, change)
    }

    /// Finishes the first transfer, and the first decoding.
    func finishLoad(
        content: Int?, bytes: Int = 1000, at location: SourceLocation = #_sourceLocation,
        _ change: (inout ResponseRecord) -> Void = { _ in }
    ) throws {
        try finishFetch(content: content, bytes: bytes, at: location, change)
        try decode(at: location)
    }

    /// Finishes the first transfer and the first decoding, and returns the image that a request got.
    func loaded(
        _ client: ClientID, _ id: Int, content: Int, at location: SourceLocation = #_sourceLocation
    ) throws -> ImageReply? {
        try finishLoad(content: content, at: location)
        return image(client, id)
    }

    /// Finishes the first decoding, and returns the image that a request got.
    func decoded(
        _ client: ClientID, _ id: Int, frames: Int = 1, damage: String? = nil, isPreview: Bool = false,
        at location: SourceLocation = #_sourceLocation
    ) throws -> ImageReply? {
        try decode(frames: frames, damage: damage, isPreview: isPreview, at: location)
        return image(client, id)
    }

    /// Requests an image, which is not on disk, and finishes the first transfer.
    func download(
        _ client: ClientID, id: Int, _ path: String, of host: String = "origin.test",
        content: Int?, bytes: Int = 1000, at location: SourceLocation = #_sourceLocation,
        _ change: (inout GetOptions) -> Void = { _ in }, response: (inout ResponseRecord) -> Void = { _ in }
    ) throws {
        let others = lookups
        get(client, id: id, path, of: host, change)
        for job in lookups where !others.contains(job) { answerDiskJob(job, content: nil) }
        try finishFetch(content: content, bytes: bytes, at: location, response)
    }

    /// Reads the header of the first decoding, and returns its job.
    func readHeader(
        width: Int = 10, height: Int = 10, frames: Int = 1, at location: SourceLocation = #_sourceLocation
    ) throws -> JobID {
        let job = try #require(decodes.keys.first, sourceLocation: location)
        readHeader(job, width: width, height: height, frames: frames)
        return job
    }

    /// Reads the header of the first decoding, and finishes it.
    func decode(
        width: Int = 10, height: Int = 10, frames: Int = 1, damage: String? = nil, isPreview: Bool = false,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        let job = try #require(decodes.keys.first, sourceLocation: location)
        decode(job, width: width, height: height, frames: frames, damage: damage, isPreview: isPreview)
    }

    /// Reads the header of a decoding, and finishes it unless it was for the header only.
    func decode(
        _ job: JobID, width: Int = 10, height: Int = 10, frames: Int = 1, damage: String? = nil, isPreview: Bool = false
    ) {
        let isDescription = decodes[job]?.order.purpose == .describe
        readHeader(job, width: width, height: height, frames: frames)
        if !isDescription { finishDecode(job, damage: damage, isPreview: isPreview) }
    }

    func decodeAll(width: Int = 10, height: Int = 10, frames: Int = 1) {
        for job in decodes.keys.sorted() { decode(job, width: width, height: height, frames: frames) }
    }

    /// Reads the headers of the decodings that have none, and finishes those that have room for their results.
    func advanceDecodes() {
        for job in decodes.keys.sorted() where decodes[job]?.plan == nil { readHeader(job) }
        for job in decodes.keys.sorted() where decodes[job]?.hasOutput == true { finishDecode(job) }
    }

    /// Sends the first payload.
    func sendPayload() {
        let sent = payloads.removeFirst()
        happen(.payloadSent(sent.client, sent.buffer))
    }

    /// Answers all transfers and decodings with an image of this many frames.
    func settle(frames: Int = 1) {
        for job in fetches.keys.sorted() { finishFetch(job, content: 1) }
        decodeAll(frames: frames)
    }

    /// The lookups on disk without an answer.
    var lookups: [JobID] { diskJobs.filter { if case .find = $0.value.kind { true } else { false } }.keys.sorted() }

    /// Answers the first lookup on disk; without a content, nothing is found.
    func answerLookup(content: Int?, asRaster: Bool = false, at location: SourceLocation = #_sourceLocation) throws {
        answerDiskJob(try #require(lookups.first, sourceLocation: location), content: content, asRaster: asRaster)
    }

    /// Requests an image, and answers the lookup on disk.
    func lookUp(
        _ client: ClientID, id: Int, _ path: String, content: Int?, asRaster: Bool = false,
        at location: SourceLocation = #_sourceLocation, _ change: (inout GetOptions) -> Void = { _ in }
    ) throws {
        get(client, id: id, path, change)
        try answerLookup(content: content, asRaster: asRaster, at: location)
    }

    /// Answers all requests to the disk tier; without a content, nothing is found.
    func answerDisk(content: Int? = nil) {
        while let job = diskJobs.keys.min() { answerDiskJob(job, content: content) }
    }

    /// Runs a get to completion: a lookup that finds nothing, download, header, pixels. Returns the only answer if it
    /// is an image.
    @discardableResult func load(
        _ client: ClientID, id: Int, _ path: String, of host: String = "origin.test",
        content: Int, bytes: Int = 1000, width: Int = 10, height: Int = 10,
        at location: SourceLocation = #_sourceLocation, _ change: (inout GetOptions) -> Void = { _ in },
        response: (inout ResponseRecord) -> Void = { _ in }
    ) -> ImageReply? {
        let others = lookups
        get(client, id: id, path, of: host, change)
        for job in lookups where !others.contains(job) { answerDiskJob(job, content: nil) }
        // The download workers may rest.
        if fetches.isEmpty { readyAll() }
        if let fetch = fetches.keys.max() {
            finishFetch(fetch, content: content, bytes: bytes, response)
        } else {
            complain("no download began", at: location)
        }
        if let job = decodes.keys.max() {
            decode(job, width: width, height: height)
        } else {
            complain("no decoding began", at: location)
        }
        let given = answers[client]?[id] ?? []
        guard given.count == 1, case .image(_, let image) = given[0] else { return nil }
        return image
    }
}

/// Returns a value with some of its fields changed.
func with<Value>(_ value: Value, _ change: (inout Value) throws -> Void) rethrows -> Value {
    var value = value
    try change(&value)
    return value
}

/// Returns the report of a decoder on the header of an image.
func decodePlan(_ width: Int = 10, _ height: Int = 10, of format: ImageFormat = .png) -> DecodePlan {
    let size = PixelGeometry(width: width, height: height)!
    return DecodePlan(header: ImageHeader(format: format, geometry: size), result: size, workingBytes: 0)
}

/// Returns the key of an original, by default of one at the usual origin.
func originalKey(
    _ place: String = "a", uid: UInt32 = 1000, _ change: (inout GetOptions) -> Void = { _ in }
) throws -> OriginalKey {
    let url = try SourceURL(place.contains("://") ? place : "http://origin.test/\(place)")
    return OriginalKey(GetRequest(id: 1, url: url, options: with(GetOptions(), change)), uid: uid)
}

/// Returns the key of bytes without an owner.
func contentKey(_ number: Int) throws -> ContentKey {
    let digest = try #require(ContentDigest(hexadecimal: StrictWorld.digest(number)))
    return ContentKey(digest: digest, owner: nil)
}

/// Returns a request that waits for a job for a minute.
func jobWaiter(_ number: Int, priority: GetOptions.Priority = .normal) -> JobWaiter {
    JobWaiter(
        id: WaiterID(number: number), client: ClientID(number: number), uid: 1000, priority: priority,
        silenceMs: 15_000, deadline: Instant(nanoseconds: 61_000_000_000))
}
