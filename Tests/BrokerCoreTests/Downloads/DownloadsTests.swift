import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// `Downloads` in isolation.
struct DownloadsTests {
    private let now = Instant(nanoseconds: 1_000_000_000)
    private let worker = WorkerID(number: 1)
    private let job = JobID(number: 1)

    private func downloads(_ change: (inout BrokerLimits) -> Void = { _ in }) -> Downloads {
        var limits = BrokerLimits()
        change(&limits)
        return Downloads(limits: limits, seed: 1)
    }

    private func key(_ path: String = "a") throws -> OriginalKey {
        OriginalKey(GetRequest(id: 1, url: try SourceURL("http://origin.test/\(path)")), uid: 1000)
    }

    private func waiter(_ number: Int, priority: GetOptions.Priority = .normal) -> JobWaiter {
        JobWaiter(
            id: WaiterID(number: number), client: ClientID(number: number), uid: 1000, priority: priority,
            silenceMs: 15_000, deadline: now.adding(milliseconds: 60_000))
    }

    /// Queues a download of "a" as `job`, and starts it.
    private func start(_ downloads: inout Downloads, isForced: Bool = false) throws {
        let download = Download(
            DownloadKey(original: try key(), isForced: isForced), url: try key().url, waiter: waiter(1))
        let begun = downloads.enqueue(download, newJob: { job }, at: now)
        #expect(begun == job && downloads.popQueued() == job)
        guard case .transfer? = downloads.start(job, on: worker, at: now) else {
            return complain("the download did not start")
        }
    }

    private func respond(_ downloads: inout Downloads, received: Int) {
        let response = ResponseRecord(status: 200, requestedAt: 0, receivedAt: 0, cacheControl: "max-age=60")
        _ = downloads.responded(job, response, validator: "\"v\"", total: 1000, at: now)
        _ = downloads.progressed(job, received: received, at: now)
    }

    @Test func `a forced request joins only a download that brings the body`() throws {
        var downloads = downloads()
        try start(&downloads)
        let joined = downloads.join(try key(), isForced: true, waiter(2))
        #expect(joined?.job == job)
        #expect(downloads[job]?.waiters.count == 2)
        #expect(downloads.join(try key("b"), isForced: false, waiter(3)) == nil)
        #expect(downloads.brokenInvariant() == nil)
    }

    @Test func `the highest priority of the waiters counts`() throws {
        var downloads = downloads()
        try start(&downloads)
        _ = downloads.join(try key(), isForced: false, waiter(2, priority: .high))
        #expect(downloads[job]?.priority == .high)
        _ = downloads.leave(job, WaiterID(number: 2), at: now)
        #expect(downloads[job]?.priority == .normal)
    }

    @Test func `received bytes are reserved until the download ends`() throws {
        var downloads = downloads()
        try start(&downloads)
        respond(&downloads, received: 400)
        #expect(downloads.reservedBytes == 400)
        _ = downloads.end(job)
        #expect(downloads.reservedBytes == 0 && downloads.active.isEmpty && downloads.brokenInvariant() == nil)
    }

    @Test func `a download without waiters stops, and its body is kept`() throws {
        var downloads = downloads()
        try start(&downloads)
        respond(&downloads, received: 400)
        _ = downloads.leave(job, WaiterID(number: 1), at: now)
        #expect(downloads.isStopping(job) && downloads[job] == nil)
        // The same original is downloaded anew until the worker has stopped.
        #expect(downloads.join(try key(), isForced: false, waiter(2)) == nil)
        _ = downloads.stopped(job, received: 500, at: now)
        #expect(downloads.keptBodyJobs == [job] && downloads.reservedBytes == 500)
        let download = Download(
            DownloadKey(original: try key(), isForced: false), url: try key().url, waiter: waiter(2))
        let next = downloads.enqueue(download, newJob: { JobID(number: 9) }, at: now)
        #expect(next == job && downloads[job]?.resumption?.offset == 500)
        #expect(downloads.brokenInvariant() == nil)
    }

    @Test func `a body that is cut short is continued at once`() throws {
        var downloads = downloads()
        try start(&downloads)
        respond(&downloads, received: 400)
        let error = WireError(.transferFailed, "Cut short.")
        let outcomes = downloads.failed(job, error, received: 400, at: now)
        guard case .freed(job, worker)? = outcomes?.first else { return complain("the worker is not freed") }
        #expect(downloads.queued == 1 && downloads.popQueued() == job)
    }

    @Test func `a retry waits for its delay, which follows from the seed`() throws {
        func delay(seed: UInt64) throws -> Instant? {
            var downloads = Downloads(limits: BrokerLimits(), seed: seed)
            try start(&downloads)
            let error = WireError(.connectFailed, "Refused.")
            let outcomes = downloads.failed(job, error, received: 0, at: now) ?? []
            #expect(downloads[job]?.retryAt != nil && downloads.queued == 0)
            for case .deadline(.retry, let at) in outcomes {
                #expect(downloads.retryDue(job, at: at) == nil && downloads.queued == 1)
                return at
            }
            return nil
        }
        #expect(try delay(seed: 1) != nil)
        #expect(try delay(seed: 1) == delay(seed: 1))
        #expect(try delay(seed: 1) != delay(seed: 2))
    }

    @Test func `a worker's death is blamed on a download that was alone`() throws {
        var downloads = downloads()
        try start(&downloads)
        for crash in 1...3 {
            let (isPoisonous, _) = downloads.workerExited(
                job, ownMaking: true, wasAlone: true, at: now)
            #expect(isPoisonous == (crash == 3))
            if isPoisonous { return }
            // The suspect is retried alone.
            #expect(!downloads.hasQueued && downloads.popSuspect() == job)
            _ = downloads.start(job, on: worker, at: now)
        }
    }

    @Test func `an origin that shares connections gets more transfers, until it does not any more`() throws {
        var downloads = downloads { ($0.transfersPerOrigin, $0.multiplexedTransfersPerOrigin) = (2, 5) }
        for number in 1...9 {
            let download = Download(
                DownloadKey(original: try key("\(number)"), isForced: false), url: try key("\(number)").url,
                waiter: waiter(1))
            _ = downloads.enqueue(download, newJob: { JobID(number: number) }, at: now)
        }
        func startAll() -> Int {
            var count = 0
            while let job = downloads.popQueued() {
                _ = downloads.start(job, on: worker, at: now)
                count += 1
            }
            return count
        }
        func respond(_ number: Int, isMultiplexed: Bool?) {
            let response = ResponseRecord(status: 200, requestedAt: 0, receivedAt: 0)
            _ = downloads.responded(
                JobID(number: number), response, validator: nil, total: 100, isMultiplexed: isMultiplexed, at: now)
        }
        // A user has a share of both.
        #expect(startAll() == 1)
        respond(1, isMultiplexed: true)
        #expect(startAll() == 3)
        // What another origin has answered says nothing of this one.
        respond(2, isMultiplexed: nil)
        _ = downloads.end(JobID(number: 1))
        #expect(startAll() == 1)
        respond(3, isMultiplexed: false)
        _ = downloads.end(JobID(number: 2))
        #expect(startAll() == 0)
        #expect(downloads.brokenInvariant() == nil)
    }

    @Test func `silence is blamed on an origin once, and only after its patience`() throws {
        var downloads = downloads { ($0.patienceMs, $0.transfersPerOrigin) = (1000, 12) }
        for number in 1...10 {
            let job = JobID(number: number)
            let download = Download(
                DownloadKey(original: try key("\(number)"), isForced: false), url: try key("\(number)").url,
                waiter: waiter(number))
            _ = downloads.enqueue(download, newJob: { job }, at: now)
            guard let next = downloads.popQueued() else { break }
            _ = downloads.start(next, on: worker, at: now)
            downloads.blameSilence(of: next, WireError(.timeout, "Silent."), at: now.adding(milliseconds: 999))
        }
        #expect(downloads.delay(of: "http://origin.test", for: 1000, until: now, at: now) == nil)
        let late = now.adding(milliseconds: 1000)
        for number in 1...6 {
            for _ in 0..<2 { downloads.blameSilence(of: JobID(number: number), WireError(.timeout, ""), at: late) }
        }
        #expect(downloads.delay(of: "http://origin.test", for: 1000, until: late, at: late) != nil)
    }
}
