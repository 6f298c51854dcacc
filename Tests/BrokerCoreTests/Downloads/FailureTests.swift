import CodingTestSupport
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

struct RecentFailuresTests {
    private var list = RecentFailures()
    private let key: OriginalKey
    private let start = Instant(nanoseconds: 1_000_000_000)
    private let thumbnail = Form.pixels(
        Transform(width: 10, height: 10, fit: .inside, byteLimit: nil, pixelFormat: .rgba8, alpha: .premultiplied))

    /// The lifetime of each failure in seconds; 0 if it is never recorded.
    private static let lifetimes: [(WireError, Int)] =
        [
            (404, 60), (410, 600), (401, 30), (403, 30), (400, 30), (451, 30), (408, 0), (425, 0), (429, 0),
            (500, 0), (501, 0), (503, 0), (304, 0),
        ].map { (WireError(.httpStatus, "", httpStatus: $0), $1) }
        + ErrorCode.allCases.filter { $0 != .httpStatus }.map { code in
            switch code {
            case .tlsFailed, .tooManyRedirects, .unsupportedScheme, .forbiddenAddress: (WireError(code, ""), 30)
            case .unsupportedFormat, .decodeFailed, .emptyImage: (WireError(code, ""), 600)
            case .truncated: (WireError(code, ""), 10)
            case .tooLarge, .tooManyPixels: (WireError(code, ""), 3600)
            default: (WireError(code, ""), 0)
            }
        }

    init() throws { key = try originalKey("http://a/1") }

    /// Notes a failure of the original, of any form of it. Returns whether it is listed.
    private mutating func note(_ error: WireError, lifetime: Int? = nil, mayLengthen: Bool = true) -> Bool {
        list.note(error, key: key, form: .original, url: "", lifetime: lifetime, mayLengthen: mayLengthen, at: start)
    }

    /// Notes a failure, and returns for how long it is listed from then on.
    private mutating func retryAfter(_ error: WireError, lifetime: Int, mayLengthen: Bool = true) -> Int? {
        _ = note(error, lifetime: lifetime, mayLengthen: mayLengthen)
        return refusal()?.retryAfterMs
    }

    private func refusal(_ form: Form = .original) -> WireError? { list.refusal(of: key, form: form, at: start) }

    private static let missing = WireError(.httpStatus, "", httpStatus: 404)

    @Test mutating func `a failure holds for as long as its class says`() throws {
        for (error, seconds) in Self.lifetimes {
            list = RecentFailures()
            #expect(note(error) == (seconds > 0), "\(error)")
            #expect(refusal()?.retryAfterMs == (seconds > 0 ? seconds * 1000 : nil), "\(error)")
            let end = start.adding(milliseconds: seconds * 1000)
            #expect(list.refusal(of: key, form: .original, at: end) == nil)
            #expect(list.count(at: end) == 0 && list.entries(at: end).isEmpty)
        }
    }

    @Test mutating func `the refusal states the first failure and the remaining time`() throws {
        let error = WireError(.httpStatus, "Not there.", httpStatus: 404)
        _ = list.note(error, key: key, form: .original, url: "http://a/1", lifetime: nil, at: start)
        let refusal = try #require(list.refusal(of: key, form: thumbnail, at: start.adding(milliseconds: 18_500)))
        #expect((refusal.code, refusal.cause) == (.recentlyFailed, .httpStatus))
        #expect((refusal.httpStatus, refusal.retryAfterMs) == (404, 41_500))
        #expect(refusal.message == "This has failed before and is not tried again for 42 s: Not there.")
        #expect(list.refusal(of: try originalKey("http://a/2"), form: thumbnail, at: start) == nil)
        let last = list.refusal(of: key, form: thumbnail, at: Instant(nanoseconds: start.nanoseconds + 59_999_999_999))
        #expect(last?.retryAfterMs == 1)
    }

    @Test mutating func `the response's lifetime is preferred to the class's, up to an hour`() throws {
        #expect(retryAfter(Self.missing, lifetime: 5) == 5000)
        #expect(retryAfter(Self.missing, lifetime: .max) == 3_600_000)
        // Server errors are never recorded, even with a lifetime.
        #expect(note(WireError(.httpStatus, "", httpStatus: 500), lifetime: 100) == false)
        #expect(list.count(at: start) == 1)
        #expect(note(Self.missing, lifetime: 0) == false)
        #expect(list.count(at: start) == 0)
        // Where it may not lengthen the time, it may shorten it.
        for (lifetime, milliseconds) in [(3600, 60_000), (5, 5000), (0, nil)] as [(Int, Int?)] {
            #expect(retryAfter(Self.missing, lifetime: lifetime, mayLengthen: false) == milliseconds)
        }
    }

    @Test mutating func `a body that is no image is not remembered for longer than usual`() throws {
        #expect(retryAfter(WireError(.truncated, ""), lifetime: 3600) == 10_000)
        #expect(retryAfter(WireError(.decodeFailed, ""), lifetime: 3600) == 600_000)
        #expect(retryAfter(WireError(.decodeFailed, ""), lifetime: 5) == 5000)
        #expect(retryAfter(WireError(.tooLarge, ""), lifetime: 0) == nil)
    }

    @Test mutating func `a failure of other bytes does not count where the bytes are known`() throws {
        _ = list.note(
            WireError(.decodeFailed, ""), key: key, form: .original, url: "", lifetime: nil, of: try contentKey(1),
            at: start)
        #expect(list.refusal(of: key, form: .original, at: start) != nil)
        #expect(list.refusal(of: key, form: .original, content: try contentKey(1), at: start) != nil)
        #expect(list.refusal(of: key, form: .original, content: try contentKey(2), at: start) == nil)
    }

    @Test mutating func `too many pixels are so in one form only`() throws {
        _ = note(WireError(.tooManyPixels, ""))
        #expect(refusal()?.cause == .tooManyPixels)
        #expect(refusal(thumbnail) == nil)
        _ = note(WireError(.decodeFailed, ""))
        #expect(refusal(thumbnail)?.cause == .decodeFailed)
        list.succeeded(key, form: thumbnail)
        #expect(refusal(thumbnail) == nil)
        #expect(refusal()?.cause == .tooManyPixels)
        list.succeeded(key, form: .original)
        #expect(list.count(at: start) == 0)
    }

    @Test func `failures can be listed and cleared`() throws {
        var list = RecentFailures()
        let (failed, gone) = (WireError(.tlsFailed, ""), WireError(.httpStatus, "", httpStatus: 410))
        for (name, error) in [("c", failed), ("a", failed), ("b", failed), ("d", gone)] {
            let key = try originalKey("http://a/\(name)")
            _ = list.note(error, key: key, form: .original, url: key.url.text, lifetime: nil, at: start)
        }
        #expect(list.entries(at: start).map(\.url) == ["a", "b", "c", "d"].map { "http://a/\($0)" })
        for count in [1, 0] { #expect(list.clear(url: "http://a/b") == count) }
        #expect(list.refusal(of: try originalKey("http://a/b"), form: .original, at: start) == nil)
        list.removeExpired(at: start.adding(milliseconds: 30_000))
        #expect(list.clear(url: nil) == 1)
        #expect(list.count(at: start) == 0)
    }

    @Test func `at capacity the entry that expires first is removed`() throws {
        var list = RecentFailures(capacity: 3)
        var urls: [String] { list.entries(at: start).map(\.url) }
        func note(_ url: String, _ lifetime: Int) throws -> Bool {
            list.note(Self.missing, key: try originalKey(url), form: .original, url: url, lifetime: lifetime, at: start)
        }
        for (url, lifetime) in [("http://a/1", 20), ("http://a/2", 10), ("http://a/3", 30)] {
            #expect(try note(url, lifetime))
        }
        // A repeated failure is ordered by its new expiry.
        #expect(try note("http://a/2", 40))
        #expect(try note("http://a/4", 25))
        #expect(urls == ["http://a/2", "http://a/3", "http://a/4"])
        #expect(try !note("http://a/5", 1))
        #expect(urls == ["http://a/2", "http://a/3", "http://a/4"])
    }

    @Test func `random steps have the result of a plain table`() throws {
        var random = SplitMix64(state: 11)
        var list = RecentFailures(capacity: 1000)
        var model: [String: Instant] = [:]
        var now = start
        for _ in 0..<5000 {
            now = now.adding(milliseconds: Int.random(in: 0...2000, using: &random))
            let url = "http://a/\(Int.random(in: 0..<50, using: &random))"
            let key = try originalKey(url)
            switch Int.random(in: 0..<10, using: &random) {
            case 0:
                list.succeeded(key, form: .original)
                model[url] = nil
            case 1: list.removeExpired(at: now)
            case 2 where random.once(in: 50):
                _ = list.clear(url: nil)
                model = [:]
            default:
                let seconds = Int.random(in: 0...60, using: &random)
                _ = list.note(Self.missing, key: key, form: .original, url: url, lifetime: seconds, at: now)
                model[url] = seconds > 0 ? now.adding(milliseconds: seconds * 1000) : nil
            }
            let expected = model.filter { $0.value > now }
            #expect(list.count(at: now) == expected.count)
            #expect((list.refusal(of: key, form: .original, at: now) != nil) == (expected[url] != nil))
        }
    }
}

/// Failures count for the origin at which they happened, and for the user who met them.
struct BlameTests {
    private var (world, client) = StrictWorld.ready { $0.retries = 0 }.connected()

    private func redirect(to root: String) throws {
        let (job, (worker, _)) = try #require(world.fetches.first)
        world.happen(.fetchRedirected(worker, job, to: root))
    }

    private func fail(status: Int? = nil, retryAfterMs: Int? = nil) throws {
        let job = try #require(world.fetches.keys.first)
        guard let status else { return world.failFetch(job) }
        world.failFetch(job, status: status, retryAfterMs: retryAfterMs)
    }

    @Test func `a Retry-After of the target holds the target, not the origin that redirected there`() throws {
        world.get(client, id: 1, "redirected")
        try redirect(to: "http://other.test:80/")
        try fail(status: 503, retryAfterMs: 600_000)
        world.get(client, id: 2, "direct")
        #expect(world.fetches.count == 1)
        #expect(world.getError(client, id: 3, "a", of: "other.test") == .hostUnavailable)
    }

    @Test(arguments: [("closed.test:9", "http://closed.test:9/", 6), ("silent.test", "http://silent.test:80/", 5)])
    func `closed ports and the silence of a target count for the target, not for the origin that redirected there`(
        host: String, root: String, times: Int
    ) throws {
        for id in 1...times {
            world.get(client, id: id, "redirected\(id)")
            try redirect(to: root)
            if host == "silent.test" { world.happen(.timePassed, after: 20_000) } else { try fail() }
            for job in world.stopping.keys { world.endStopping(job, received: 0) }
        }
        world.get(client, id: 7, "direct")
        #expect(world.fetches.count == 1)
        #expect(world.getError(client, id: 8, "a", of: host) == .hostUnavailable)
    }

    @Test func `what one user's paths do to a host does not close it to another user`() throws {
        for id in 1...5 {
            world.get(client, id: id, "slow\(id)")
            try fail()
        }
        #expect(world.getError(client, id: 10, "a") == .hostUnavailable)
        world.get(world.connect(uid: 1001), id: 11, "a")
        #expect(world.fetches.count == 1)
        try fail(status: 429, retryAfterMs: 600_000)
        world.get(world.connect(uid: 1002), id: 12, "b")
        #expect(world.fetches.count == 1)
    }
}

struct HostTableTests {
    private var table = HostTable()
    private let refused = WireError(.connectFailed, "")
    private let host = Self.key("http://a")

    private static func key(_ origin: String, user: UInt32 = 1) -> HostTable.Key {
        HostTable.Key(origin: origin, user: user)
    }

    private func at(_ milliseconds: Int) -> Instant {
        Instant(nanoseconds: 1_000_000_000).adding(milliseconds: milliseconds)
    }

    /// Opens the breaker of `host`.
    private mutating func breakHost(at now: Int = 0) { for _ in 0..<5 { table.failed(host, refused, at: at(now)) } }

    private mutating func answer(_ status: Int, retryAfterMs: Int? = nil, at now: Int = 0) {
        table.answered(host, status: status, retryAfterMs: retryAfterMs, at: at(now))
    }

    @Test mutating func `five failures in a row open the breaker, and any answer between them counts anew`() {
        for _ in 0..<4 { table.failed(host, refused, at: at(0)) }
        answer(500)
        #expect(table.count == 0)
        for _ in 0..<2 { table.failed(host, refused, at: at(0)) }
        for _ in 0..<2 { table.failed(host, WireError(.timeout, ""), at: at(0)) }
        for code in [ErrorCode.dnsFailed, .tlsFailed, .transferFailed, .cancelled] {
            table.failed(host, WireError(code, ""), at: at(0))
        }
        expect(nil, table.admit(host, at: at(0)))
        table.failed(host, refused, at: at(0))
        expect(5000, table.admit(host, at: at(0)))
        expect(4000, table.refusal(of: host, at: at(1000)))
        expect(nil, table.admit(Self.key("http://a:8080"), at: at(0)))
    }

    @Test mutating func `a half open breaker lets one through until its outcome is known`() {
        breakHost()
        expect(1, table.admit(host, at: at(4999)))
        expect(nil, table.refusal(of: host, at: at(5000)))
        expect(nil, table.admit(host, at: at(5000)))
        expect(1000, table.admit(host, at: at(5000)))
        expect(1000, table.refusal(of: host, at: at(60_000)))
        table.abandoned(host)
        expect(nil, table.admit(host, at: at(60_000)))
        expect(1000, table.admit(host, at: at(60_000)))
        // An inconclusive probe.
        table.failed(host, WireError(.tlsFailed, ""), at: at(60_000))
        expect(nil, table.admit(host, at: at(60_000)))
        answer(404, at: 60_000)
        for _ in 0..<2 { expect(nil, table.admit(host, at: at(60_000))) }
        #expect(table.count == 0)
    }

    @Test mutating func `each failed probe doubles the wait, up to a minute`() {
        breakHost()
        var now = 0
        var waits: [Int?] = []
        for _ in 0..<6 {
            let wait = table.refusal(of: host, at: at(now))
            waits.append(wait)
            now += wait ?? 0
            expect(nil, table.admit(host, at: at(now)))
            table.failed(host, refused, at: at(now))
        }
        #expect(waits == [5000, 10_000, 20_000, 40_000, 60_000, 60_000])
        answer(200, at: now)
        breakHost(at: now)
        expect(5000, table.refusal(of: host, at: at(now)))
    }

    @Test mutating func `transfers that were in flight when the breaker opened do not prolong it`() {
        breakHost()
        table.failed(host, refused, at: at(4000))
        expect(1000, table.admit(host, at: at(4000)))
        table.failed(host, refused, at: at(6000))
        expect(nil, table.admit(host, at: at(6000)))
    }

    @Test mutating func `Retry-After is respected`() {
        func ends(_ end: Int?, at now: Int, location: SourceLocation = #_sourceLocation) {
            #expect(table.holdEnd(of: host, at: at(now)) == end.map(at), sourceLocation: location)
        }
        answer(503)
        answer(500, retryAfterMs: 5000)
        ends(nil, at: 0)
        answer(503, retryAfterMs: 3000)
        // Transfers that began earlier finish later.
        answer(429, retryAfterMs: 1)
        answer(200, at: 500)
        ends(3000, at: 500)
        // No failure is of the breaker's kind.
        expect(nil, table.refusal(of: host, at: at(500)))
        ends(nil, at: 3000)
        answer(429, retryAfterMs: 0, at: 3000)
        ends(4000, at: 3000)
        answer(429, retryAfterMs: .max, at: 3000)
        ends(603_000, at: 3000)
    }

    @Test mutating func `an origin that asked for patience gets one transfer, and one more with each answer`() {
        #expect(table.mostTransfers(of: host, at: at(0)) == nil)
        answer(429, retryAfterMs: 1000)
        #expect(table.mostTransfers(of: host, at: at(999)) == 0)
        #expect(table.mostTransfers(of: host, at: at(1000)) == 1)
        // An answer that came in the meantime was asked for before.
        answer(200, at: 999)
        #expect(table.mostTransfers(of: host, at: at(1000)) == 1)
        for status in [200, 304, 404, 301] { answer(status, at: 1000) }
        #expect(table.mostTransfers(of: host, at: at(1000)) == 4)
        answer(503, retryAfterMs: 1000, at: 1000)
        #expect(table.mostTransfers(of: host, at: at(2000)) == 1)
        for _ in 1..<HostTable.mostGentle {
            #expect(table.mostTransfers(of: host, at: at(2000)) != nil)
            answer(200, at: 2000)
        }
        #expect(table.mostTransfers(of: host, at: at(2000)) == nil && table.count == 0)
    }

    @Test mutating func `retries are one in ten transfers, after the first ten`() {
        func retries() -> Int {
            var count = 0
            while table.takeRetry(host) { count += 1 }
            return count
        }
        #expect(retries() == 10)
        for _ in 0..<39 { expect(nil, table.admit(host, at: at(0))) }
        #expect(retries() == 3)
        expect(nil, table.admit(host, at: at(0)))
        #expect(retries() == 1)
        // Unused retries do not accumulate.
        for _ in 0..<1000 { expect(nil, table.admit(host, at: at(0))) }
        #expect(table.count == 0)
        #expect(retries() == 10)
    }

    @Test func `the table is bounded, and the least recently used entry is removed`() {
        var table = HostTable(capacity: 3)
        for name in ["http://a", "http://b", "http://c"] {
            table.answered(Self.key(name), status: 429, retryAfterMs: 60_000, at: at(0))
        }
        table.failed(Self.key("http://a"), refused, at: at(0))
        table.answered(Self.key("http://d"), status: 429, retryAfterMs: 60_000, at: at(0))
        #expect(table.count == 3)
        let held = ["a", "b", "c", "d"].filter { table.holdEnd(of: Self.key("http://\($0)"), at: at(0)) != nil }
        #expect(held == ["a", "c", "d"])
    }

    /// Keeps the mutating calls outside of `#expect`.
    private func expect(_ expected: Int?, _ wait: Int?, at location: SourceLocation = #_sourceLocation) {
        #expect(wait == expected, sourceLocation: location)
    }
}

struct RetryPolicyTests {
    @Test func `only failures that are often transient are retried`() {
        func mayRetry(_ error: WireError, received: Int = 0) -> Bool {
            RetryPolicy.mayRetry(error, receivedBytes: received, attempt: 1, limit: 1)
        }
        let codes = ErrorCode.allCases.filter { mayRetry(WireError($0, "")) }
        #expect(codes == [.connectFailed, .timeout, .transferFailed])
        #expect(!mayRetry(WireError(.timeout, ""), received: 1))
        #expect(mayRetry(WireError(.transferFailed, ""), received: 1))
        let statuses = (100...599).filter { mayRetry(WireError(.httpStatus, "", httpStatus: $0)) }
        #expect(statuses == [502, 503, 504])
        #expect(!mayRetry(WireError(.httpStatus, "", httpStatus: 503, retryAfterMs: 1000)))
    }

    @Test func `the number of retries is limited`() {
        let error = WireError(.connectFailed, "")
        for limit in 0...3 {
            let most = (1...5).count { RetryPolicy.mayRetry(error, receivedBytes: 0, attempt: $0, limit: limit) }
            #expect(most == limit)
        }
    }

    @Test func `the delay is random up to a bound that doubles`() {
        let bounds = (0...9).map { RetryPolicy.delayMs(attempt: $0, random: .max) }
        #expect(bounds == [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000])
        #expect(RetryPolicy.delayMs(attempt: .max, random: .max) == 60_000)
        #expect(RetryPolicy.delayMs(attempt: 3, random: 0) == 0)
        var random = SplitMix64(state: 5)
        let delays = (0..<1000).map { _ in RetryPolicy.delayMs(attempt: 1, random: random.next()) }
        let mean = delays.reduce(0, +) / delays.count
        #expect((450...550).contains(mean))
    }
}

/// Bytes that a compromised download worker has written are not continued, by whichever worker.
struct CompromisedBodyTests {
    private var (world, client) = StrictWorld.ready {
        ($0.workers, $0.fetchers, $0.transfersPerFetcher, $0.resumptions) = (1, 2, 1, 0)
    }.connected()

    /// Begins a download that has received 500 bytes, which can be continued.
    private func begin(_ id: Int, _ path: String) throws -> (job: JobID, worker: WorkerID) {
        world.get(client, id: id, path)
        let (job, fetch) = try #require(world.fetches.first { $0.value.order.url.hasSuffix("/\(path)") })
        world.respond(job)
        world.progress(job, received: 500, expected: 1000)
        return (job, fetch.worker)
    }

    @Test func `the number of bytes that a worker reports is bounded before it is added to those of its user`() throws {
        for id in 1...3 {
            let (job, _) = try begin(id, "\(id)")
            world.progress(job, received: .max, expected: .max)
            world.cutFetch(job, received: .max)
        }
    }

    private func endCompromised(_ worker: WorkerID) { world.replaceWorker(worker, .ended(.signal(31))) }

    /// Lets time pass until a download runs that is not among these.
    private func next(besides others: Set<JobID> = []) throws -> JobID {
        for _ in 0..<10 where !world.fetches.keys.contains(where: { !others.contains($0) }) {
            world.readyAll(after: 1000)
        }
        return try #require(world.fetches.keys.first { !others.contains($0) })
    }

    private func finish(_ job: JobID, _ id: Int) throws {
        #expect(world.fetches[job]?.order.resumption == nil)
        world.finishFetch(job, content: 1)
        #expect(try world.decoded(client, id)?.source == .network && world.state.reservedBytes == 0)
    }

    @Test(arguments: [true, false]) func `a transfer that runs or waits for its retry begins anew`(isRunning: Bool)
        throws
    {
        let (job, worker) = try begin(1, "a")
        if !isRunning { world.cutFetch(job, received: 500) }
        if !isRunning { #expect(world.state.reservedBytes == 500) }
        endCompromised(worker)
        if !isRunning { #expect(world.state.reservedBytes == 0 && world.products.isEmpty) }
        try finish(next(), 1)
    }

    /// Begins a download on one worker, which is returned, and has another continue it.
    private func beginContinued() throws -> (job: JobID, worker: WorkerID) {
        let (job, first) = try begin(1, "a")
        world.cutFetch(job, received: 500)
        // Another user keeps the first worker busy, because one may not have both.
        world.get(world.stranger, id: 1, "b")
        #expect(world.fetches.values.map(\.worker) == [first])
        let continued = try next(besides: Set(world.fetches.keys))
        let (second, order) = try #require(world.fetches[continued])
        #expect(continued == job && second != first && order.resumption != nil)
        world.respond(job, status: 206)
        world.progress(job, received: 600, expected: 1000)
        return (job, first)
    }

    @Test func `a transfer that another worker continues begins anew`() throws {
        let (job, first) = try beginContinued()
        let other = try #require(world.fetches.keys.first { $0 != job })
        endCompromised(first)
        #expect(world.fetches[job] == nil)
        for _ in 0..<10 where world.fetches.count < 2 { world.readyAll(after: 1000) }
        try finish(#require(world.fetches.keys.first { $0 != other }), 1)
    }

    @Test(arguments: [false, true])
    func `a transfer, or one that is continued, that was to stop leaves nothing`(isContinued: Bool) throws {
        let (job, first) = try isContinued ? beginContinued() : begin(1, "a")
        let worker = world.fetches[job]?.worker
        #expect(world.cancel(client, 1).stopping[job] == worker)
        endCompromised(first)
        if isContinued { world.endStopping(job, received: 700) }
        #expect(world.state.downloads.keptBodyJobs.isEmpty && !world.products.contains(job))
    }

    @Test func `everything made of a continued body is discarded with either worker`() throws {
        let (job, first) = try beginContinued()
        world.finishFetch(job, content: 1)
        #expect(try world.decoded(client, 1)?.source == .network)
        endCompromised(first)
        #expect(try world.state.memory.keys(at: SourceURL("http://origin.test/a")).isEmpty)
    }
}
