import HTTPValues
import IPCProtocol
import WorkerProtocol

@testable import HTTPCaching
@testable import imgfetch

/// Decides about caching. The input consists of times as bytes, the fields of a response as lines, and a line of a
/// request.
func fuzzHTTPCaching(_ bytes: [UInt8]) {
    var input = FuzzInput(bytes)
    let status = 100 + input.byte() * 2
    let requested = input.byte() << 33 | input.byte() << 10
    let received = input.byte() << 33 | input.byte() << 10
    let response = ResponseRecord(
        status: min(status, 599), requestedAt: requested, receivedAt: received, date: input.text(), age: input.text(),
        cacheControl: input.text(), expires: input.text(), etag: input.text(), lastModified: input.text(),
        vary: input.text(), contentType: input.text())
    for isShared in [true, false] {
        let settings = CacheSettings()
        let policy = CachePolicy(response, isShared: isShared, settings: settings)
        expect((0...settings.maximumLifetime).contains(policy.lifetime), "a lifetime is within its limits")
        expect(policy.initialAge >= 0, "an age is not negative")
        expect((0...CacheControl.mostSeconds).contains(policy.staleIfError), "stale-if-error is within its limits")
        expect(
            (0...CacheControl.mostSeconds).contains(policy.staleWhileRevalidate),
            "stale-while-revalidate is within its limits")
        for time in [0, requested, received, received + 1, policy.expires * 1000, Int.max] {
            let age = policy.age(at: time)
            expect(age >= 0, "an age is never negative")
            expect(!policy.isFresh(atAge: age) || time >= received, "a response is not fresh before it is received")
            _ = policy.mayServeStale(atAge: age, after: WireError(.connectFailed, ""))
            for mode in GetOptions.CacheMode.allCases {
                let decision = CacheDecision.decide(mode: mode, stored: (policy, age))
                expect(decision != .refuse, "a stored response is not refused")
            }
        }
    }
    var redirected = response
    redirected.redirects = [Redirect(response)]
    redirected.receivedAt += input.byte() << 10
    for isShared in [true, false] {
        var alone = redirected
        alone.redirects = []
        let (policy, most) = (
            CachePolicy(redirected, isShared: isShared), CachePolicy(alone, isShared: isShared)
        )
        expect((0...most.lifetime).contains(policy.lifetime), "a redirect does not lengthen a lifetime")
        expect(policy.alwaysRevalidate || !most.alwaysRevalidate, "a redirect does not lift no-cache")
        expect(
            policy.lifetime + policy.staleWhileRevalidate <= most.lifetime + most.staleWhileRevalidate
                && policy.lifetime + policy.staleIfError <= most.lifetime + most.staleIfError,
            "a redirect does not lengthen a window")
    }
    for response in [response, redirected] {
        expect(FailureTerms(response).lifetime ?? 0 >= 0, "a failure's lifetime is not negative")
    }
    let fields = input.text()
    let key = Vary.key(response.vary) { _ in fields }
    expect(key == Vary.key(response.vary) { _ in fields.map { " \($0)\t" } }, "whitespace around a field is ignored")
    if let date = response.date, let seconds = HTTPDate.seconds(date, now: received / 1000) {
        expect(HTTPDate.seconds(date.uppercased(), now: received / 1000) == seconds, "a date's case is ignored")
    }
    _ = RetryAfter.milliseconds(response.age ?? "", now: received / 1000).map {
        expect(RetryAfter.range.contains($0), "Retry-After is within its limits")
    }
}

/// Parses a response's header line by line, followed by an empty line and cookies.
func fuzzResponseHeaders(_ bytes: [UInt8]) {
    var input = FuzzInput(bytes)
    var headers = ResponseHeaders()
    while !input.rest.isEmpty {
        let line = input.line() + [0x0A]
        let reading = headers.read(line)
        expect(reading != .complete || headers.isComplete, "a header is complete after its end")
        if headers.isComplete { break }
    }
    for field in [headers.etag, headers.contentType, headers.vary, headers.cacheControl] {
        expect(field?.utf8.count ?? 0 <= ResponseHeaders.longestValue, "a field is within its length limit")
        let isPlain = field?.utf8.allSatisfy { ($0 >= 0x20 || $0 == 0x09) && $0 != 0x7F } ?? true
        expect(isPlain, "a stored field can be sent")
    }
    expect(headers.expectedLength ?? 0 >= 0, "a length is not negative")
    let record = headers.record(requestedAt: 0, receivedAt: 1000)
    _ = CachePolicy(record, isShared: true)
    if let wait = headers.retryAfter.flatMap({ RetryAfter.milliseconds($0, now: 1_000_000_000) }) {
        expect(RetryAfter.range.contains(wait), "Retry-After is within its limits")
    }
    if let range = headers.contentRange.flatMap({ ContentRange($0) }) {
        expect(range.first >= 0 && range.first <= range.last, "a range is ordered")
        expect(range.last < range.total ?? .max, "a range ends within the total")
        let resumption = FetchJob.Resumption(
            offset: range.first, validator: headers.etag ?? "", total: range.total)
        _ = Continuation.part(of: headers, continuing: resumption)
    }
    if let location = headers.location {
        expect(location.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }, "a location is printable")
        if let target = try? TransferURL("https://host.test/a/b?c").redirected(to: location) {
            expect(target.scheme == "https", "no redirect leaves https")
            expect((try? TransferURL(target.text)) == target, "a redirect's target can be parsed again")
        }
    }
    var lines: [String] = []
    while !input.rest.isEmpty { if let line = input.text() { lines.append(line) } }
    let (given, now) = (Array(lines.prefix(lines.count / 2)), Array(lines.dropFirst(lines.count / 2)))
    let changes = CookieJar.changes(given: given.filter(CookieJar.isLine), loaded: [], now: now, seconds: 1_000_000_000)
    expect(changes.changed.count <= CookieJar.mostLines, "cookies are within their limits")
    expect(
        (changes.changed + changes.removed).reduce(0) { $0 + $1.utf8.count } <= CookieJar.mostReportedBytes,
        "what is reported of cookies has its bounds")
}
