import Digests
import DiskRecords
import HTTPValues
import IPCProtocol
import Testing

@testable import BrokerCore

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

    /// Answers a lookup without a record.
    func answerShared(_ job: JobID, _ answer: SharedAnswer) {
        guard case (let worker, .find(_, let token))? = tierJobs.removeValue(forKey: job) else {
            return complain("no lookup")
        }
        if answer == .leased {
            guard let token else { return complain("a lease without a token") }
            leases.insert(token)
        }
        happen(.sharedAnswered(worker, job, answer))
    }

    /// Answers a lookup with an original, whose bytes are identified as `content` as soon as a decoder has them. The record states
    /// the digest of `stated`, and is that of another key or time if these are given.
    func findShared(
        _ job: JobID, content: Int?, stated: Int? = nil, bytes: Int = 1000, key otherKey: String? = nil,
        lifetimeMs: Int = 10_000, _ change: (inout ResponseRecord) -> Void = { _ in }
    ) {
        guard case (let worker, .find(let key, _))? = tierJobs.removeValue(forKey: job) else {
            return complain("no lookup")
        }
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
        guard case (let worker, .find(let key, _))? = tierJobs.removeValue(forKey: job) else {
            return complain("no lookup")
        }
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
        guard case (let worker, .find)? = tierJobs.removeValue(forKey: job) else { return complain("no lookup") }
        happen(.sharedUnreadable(worker, job))
    }

    /// Answers a lookup with a record without bytes.
    func noteShared(_ job: JobID, _ content: SharedRecord.Content) {
        guard case (let worker, .find(let key, _))? = tierJobs.removeValue(forKey: job) else {
            return complain("no lookup")
        }
        happen(.sharedNoted(worker, job, SharedRecord(key: key, content, expires: unixMs + 5000)))
    }

    /// Ends the writing of a record.
    func finishWriting(_ job: JobID) {
        guard case (let worker, .write)? = tierJobs.removeValue(forKey: job) else { return complain("no such write") }
        happen(.sharedWritten(worker, job))
    }
}
