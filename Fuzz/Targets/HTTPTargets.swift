import HTTPValues
import IPCProtocol
import WorkerProtocol

@testable import HTTPCaching
@testable import imgfetch

/// Lines: times as bytes, then the fields of a response, and last one of a request.
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
        expect((0...settings.maximumLifetime).contains(policy.lifetime), "a lifetime has its bounds")
        expect(policy.initialAge >= 0, "no age is negative")
        expect((0...CacheControl.mostSeconds).contains(policy.staleIfError), "a time for failures has its bounds")
        expect((0...CacheControl.mostSeconds).contains(policy.staleWhileRevalidate), "so has one for revalidation")
        for time in [0, requested, received, received + 1, policy.expires * 1000, Int.max] {
            let age = policy.age(at: time)
            expect(age >= 0, "no age is negative at any time")
            expect(!policy.isFresh(atAge: age) || time >= received, "nothing is fresh before it came")
            _ = policy.mayServeStale(atAge: age, after: WireError(.connectFailed, ""))
            for mode in GetOptions.CacheMode.allCases {
                let decision = CacheDecision.decide(mode: mode, stored: (policy, age))
                expect(decision != .refuse, "what is stored is not refused")
            }
        }
    }
    let stated = CachePolicy.statedLifetime(ofFailure: response)
    expect(stated ?? 0 >= 0, "a failure's lifetime is not negative")
    let fields = input.text()
    let key = Vary.key(response.vary) { _ in fields }
    expect(key == Vary.key(response.vary) { _ in fields.map { " \($0)\t" } }, "space around a field does not matter")
    if let date = response.date, let seconds = HTTPDate.seconds(date, now: received / 1000) {
        expect(HTTPDate.seconds(date.uppercased(), now: received / 1000) == seconds, "a date's case does not matter")
    }
    _ = RetryAfter.milliseconds(response.age ?? "", now: received / 1000).map {
        expect(RetryAfter.range.contains($0), "patience has its bounds")
    }
}

/// A response's header, line by line; then lines of cookies behind an empty one and another header's end.
func fuzzResponseHeaders(_ bytes: [UInt8]) {
    var input = FuzzInput(bytes)
    var headers = ResponseHeaders()
    while !input.rest.isEmpty {
        let line = input.line() + [0x0A]
        let reading = headers.read(line)
        expect(reading != .complete || headers.isComplete, "a header that ended is complete")
        if headers.isComplete { break }
    }
    for field in [headers.etag, headers.contentType, headers.vary, headers.cacheControl] {
        expect(field?.utf8.count ?? 0 <= ResponseHeaders.longestValue, "a field has a longest length")
        let isPlain = field?.utf8.allSatisfy { ($0 >= 0x20 || $0 == 0x09) && $0 != 0x7F } ?? true
        expect(isPlain, "a field that is kept can be sent")
    }
    expect(headers.expectedLength ?? 0 >= 0, "no length is negative")
    let record = headers.record(requestedAt: 0, receivedAt: 1000)
    _ = CachePolicy(record, isShared: true)
    if let wait = headers.retryAfter.flatMap({ RetryAfter.milliseconds($0, now: 1_000_000_000) }) {
        expect(RetryAfter.range.contains(wait), "patience has its bounds")
    }
    if let range = headers.contentRange.flatMap({ ContentRange($0) }) {
        expect(range.first >= 0 && range.first <= range.last, "a range has an order")
        expect(range.last < range.total ?? .max, "a range ends within the whole")
        let resumption = FetchJob.Resumption(
            offset: range.first, validator: headers.etag ?? "", total: range.total)
        _ = Continuation.part(of: headers, continuing: resumption)
    }
    if let location = headers.location {
        expect(location.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }, "a location is printable")
        if let target = try? TransferURL("https://host.test/a/b?c").redirected(to: location) {
            expect(target.scheme == "https", "no redirect leaves https")
            expect((try? TransferURL(target.text)) == target, "a redirect's target can be read again")
        }
    }
    var lines: [String] = []
    while !input.rest.isEmpty { if let line = input.text() { lines.append(line) } }
    let (given, now) = (Array(lines.prefix(lines.count / 2)), Array(lines.dropFirst(lines.count / 2)))
    let changes = CookieJar.changes(given: given.filter(CookieJar.isLine), loaded: [], now: now, seconds: 1_000_000_000)
    expect(changes.changed.count <= CookieJar.mostLines, "cookies have their bounds")
    expect(
        (changes.changed + changes.removed).reduce(0) { $0 + $1.utf8.count } <= CookieJar.mostReportedBytes,
        "what is reported of cookies has its bounds")
}
