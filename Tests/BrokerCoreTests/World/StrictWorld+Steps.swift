import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

// Steps that most tests take.
extension StrictWorld {
    /// Returns a world whose workers are ready.
    static func ready(_ change: (inout BrokerLimits) -> Void = { _ in }) -> StrictWorld {
        var limits = BrokerLimits()
        change(&limits)
        let world = StrictWorld(limits)
        world.readyAll()
        return world
    }

    /// Returns this world with one more client, and the client.
    func connected(uid: UInt32 = 1000, isAdmin: Bool = false) -> (StrictWorld, ClientID) {
        let client = connect(uid: uid, isAdmin: isAdmin)
        return (self, client)
    }

    /// Lets time pass, and makes all starting workers ready.
    func readyAll(after milliseconds: Int) {
        happen(.timePassed, after: milliseconds)
        readyAll()
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

    /// Requests an image, and finishes the first transfer.
    func download(
        _ client: ClientID, id: Int, _ path: String, of host: String = "origin.test", content: Int?, bytes: Int = 1000,
        at location: SourceLocation = #_sourceLocation, _ change: (inout GetOptions) -> Void = { _ in }
    ) throws {
        get(client, id: id, path, of: host, change)
        try finishFetch(content: content, bytes: bytes, at: location)
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
        let job = try readHeader(width: width, height: height, frames: frames, at: location)
        finishDecode(job, damage: damage, isPreview: isPreview)
    }

    /// Reads the header of a decoding, and finishes it.
    func decode(_ job: JobID, width: Int = 10, height: Int = 10, frames: Int = 1) {
        readHeader(job, width: width, height: height, frames: frames)
        finishDecode(job)
    }

    /// Reads the headers of all decodings, and finishes them.
    func decodeAll(width: Int = 10, height: Int = 10, frames: Int = 1) {
        for job in decodes.keys.sorted() { decode(job, width: width, height: height, frames: frames) }
    }

    /// Answers all transfers and decodings with an image of this many frames.
    func settle(frames: Int = 1) {
        for job in fetches.keys.sorted() { finishFetch(job, content: 1) }
        decodeAll(frames: frames)
    }

    /// Answers all requests to the disk tier; without a content, nothing is found.
    func answerDisk(content: Int? = nil) {
        while let job = diskJobs.keys.min() { answerDiskJob(job, content: content) }
    }

    /// Runs a get to completion: download, header, pixels.
    func load(
        _ client: ClientID, id: Int, _ path: String, of host: String = "origin.test", content: Int, bytes: Int = 1000,
        width: Int = 10, height: Int = 10, _ change: (inout GetOptions) -> Void = { _ in }
    ) {
        get(client, id: id, path, of: host, change)
        // The download workers may rest.
        if fetches.isEmpty { readyAll() }
        guard let fetch = fetches.keys.max() else { return complain("no download began") }
        finishFetch(fetch, content: content, bytes: bytes)
        guard let decode = decodes.keys.max() else { return complain("no decoding began") }
        self.decode(decode, width: width, height: height)
    }
}

extension SplitMix64 {
    /// Returns true once in `count` times.
    mutating func isOne(of count: Int) -> Bool { Int.random(in: 0..<count, using: &self) == 0 }
}
