import HTTPValues
import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Requests that end sooner: the age of a cached response, retries, and alternative URLs.
struct TermsTests {
    private let world = StrictWorld()
    private let client: ClientID

    init() {
        client = world.connect()
        world.readyAll()
    }

    private func url(_ path: String, of host: String = "origin.test") throws -> SourceURL {
        try SourceURL("http://\(host)/\(path)")
    }

    /// Answers the only transfer with an image.
    private func serve(content: Int = 1, _ change: (inout ResponseRecord) -> Void = { _ in }) throws {
        world.finishFetch(try #require(world.fetches.keys.min()), content: content, change)
        world.decodeAll()
    }

    /// Fails the transfers and their retries.
    private func failAll(_ code: ErrorCode = .connectFailed) {
        while let job = world.fetches.keys.min() {
            world.failFetch(job, code)
            world.happen(.timePassed, after: 1_001)
        }
    }

    private var requested: [String] { world.fetches.values.map(\.order.url) }

    // MARK: Age

    @Test func `a cached response of the maximum age is used, and an older one confirmed`() throws {
        world.get(client, id: 1, "a")
        try serve { ($0.cacheControl, $0.etag) = ("max-age=1000", "\"one\"") }
        world.happen(.timePassed, after: 10_900)
        #expect(world.getImage(client, id: 2, "a") { $0.maxAgeSeconds = 10 }?.source == .memory)
        world.get(client, id: 3, "a") { $0.maxAgeSeconds = 9 }
        let job = try #require(world.fetches.keys.first)
        #expect(world.fetches[job]?.order.conditions == RequestConditions(etag: "\"one\""))
        #expect(world.fetches[job]?.order.headers == [HeaderField(name: "cache-control", value: "max-age=9")])
        world.confirm(job)
        #expect(world.image(client, 3)?.stale == false)
    }

    /// A request with a maximum age wants no stale response (RFC 9111, section 5.2.1.1).
    @Test func `a stale response is no answer, however young`() throws {
        let policy = "max-age=1, stale-while-revalidate=1000, stale-if-error=1000"
        world.get(client, id: 1, "a")
        try serve { $0.cacheControl = policy }
        world.happen(.timePassed, after: 5_000)
        world.get(client, id: 2, "a") { $0.maxAgeSeconds = 100 }
        #expect(world.answers[client]?[2] == nil)
        // After a failure it is, unless it is too old.
        world.get(client, id: 3, "a") { $0.maxAgeSeconds = 2 }
        failAll()
        #expect(world.image(client, 2)?.stale == true && world.error(client, 3) == .connectFailed)
    }

    @Test func `the other cache modes have a maximum age, too`() throws {
        world.get(client, id: 1, "a")
        try serve { $0.cacheControl = "max-age=1" }
        world.happen(.timePassed, after: 5_000)
        world.get(client, id: 2, "a") { ($0.cache, $0.maxAgeSeconds) = (.onlyIfCached, 5) }
        #expect(world.image(client, 2)?.stale == true)
        world.get(client, id: 3, "a") { ($0.cache, $0.maxAgeSeconds) = (.onlyIfCached, 4) }
        #expect(world.error(client, 3) == .notCached)
        world.get(client, id: 4, "a") { ($0.cache, $0.maxAgeSeconds) = (.forceCache, 5) }
        #expect(world.image(client, 4)?.source == .memory)
        world.get(client, id: 5, "a") { ($0.cache, $0.maxAgeSeconds) = (.forceCache, 4) }
        #expect(world.fetches.count == 1)
    }

    /// The text of a request is remembered with its answer, which ends with the age.
    @Test func `a repeated request ends with the age`() throws {
        world.get(client, id: 1, "a")
        try serve { $0.cacheControl = "max-age=1000" }
        for id in 2...6 { world.get(client, id: id, "a") { $0.maxAgeSeconds = 10 } }
        let shortcuts = world.shortcuts
        #expect(shortcuts > 0)
        world.happen(.timePassed, after: 9_000)
        world.get(client, id: 7, "a") { $0.maxAgeSeconds = 10 }
        #expect(world.shortcuts == shortcuts + 1)
        world.happen(.timePassed, after: 2_500)
        world.get(client, id: 8, "a") { $0.maxAgeSeconds = 10 }
        #expect(world.answers[client]?[8] == nil && world.fetches.count == 1)
    }

    @Test func `an image within an age has no slot`() throws {
        world.greet(client)
        world.get(client, id: 1, "a")
        try serve()
        #expect(world.getImage(client, id: 2, "a")?.slot != nil)
        world.get(client, id: 3, "a") { $0.maxAgeSeconds = 1000 }
        #expect(world.image(client, 3) != nil && world.image(client, 3)?.slot == nil)
    }

    // MARK: Retries

    @Test func `a request without retries ends with the first failure, the others go on`() throws {
        world.get(client, id: 1, "a") { $0.retries = 0 }
        world.get(client, id: 2, "a")
        world.failFetch(try #require(world.fetches.keys.first))
        #expect(world.error(client, 1) == .connectFailed && world.answers[client]?[2] == nil)
        world.happen(.timePassed, after: 1_001)
        try serve()
        #expect(world.image(client, 2) != nil)
        // Alone, it is not retried at all, and never more often than the broker's limit.
        world.get(client, id: 3, "b") { $0.retries = 0 }
        failAll()
        #expect(world.error(client, 3) == .connectFailed)
        world.get(client, id: 4, "c") { $0.retries = 100 }
        var transfers = 0
        while let job = world.fetches.keys.first {
            transfers += 1
            world.failFetch(job)
            world.happen(.timePassed, after: 1_001)
        }
        #expect(transfers == world.state.limits.retries + 1)
    }

    @Test func `a request without retries does not wait for its origin's patience`() throws {
        world.get(client, id: 1, "a") { $0.retries = 0 }
        world.get(client, id: 2, "a")
        world.failFetch(try #require(world.fetches.keys.first), status: 429, retryAfterMs: 1000)
        #expect(world.error(client, 1) != nil && world.answers[client]?[2] == nil)
    }

    // MARK: Alternatives

    @Test func `alternatives are loaded in order, and the reply names the one that answered`() throws {
        let alternatives = [try url("b"), try url("c", of: "other.test"), try url("d")]
        world.get(client, id: 1, "a") { ($0.alternatives, $0.retries) = (alternatives, 0) }
        world.failFetch(try #require(world.fetches.keys.first), status: 404)
        #expect(requested == [alternatives[0].text])
        world.failFetch(try #require(world.fetches.keys.first), .tooManyRedirects)
        #expect(requested == [alternatives[1].text])
        try serve()
        #expect(world.image(client, 1)?.url == alternatives[1].text && world.state.requests.isEmpty)
        // The first one has failed recently, the next is in memory.
        world.get(client, id: 2, "a") { $0.alternatives = [alternatives[1]] }
        #expect(world.image(client, 2)?.url == alternatives[1].text && world.image(client, 2)?.source == .memory)
    }

    @Test func `bytes that are no image have alternatives, too`() throws {
        let other = try url("b")
        try world.download(client, id: 1, "a", content: 1) { $0.alternatives = [other] }
        world.failDecode(try #require(world.decodes.keys.first))
        #expect(requested == [other.text])
        try serve(content: 2)
        #expect(world.image(client, 1)?.url == other.text)
    }

    /// Each fails once, and then the request has failed.
    @Test func `alternatives that all fail end the request with the last error`() throws {
        world.get(client, id: 1, "0") { options in
            options.alternatives = (1...4).compactMap { try? SourceURL("http://origin.test/\($0)") }
            options.retries = 0
        }
        for number in 0...4 {
            #expect(requested == [try url("\(number)").text])
            world.failFetch(try #require(world.fetches.keys.first), number == 4 ? .tlsFailed : .tooManyRedirects)
        }
        #expect(world.error(client, 1) == .tlsFailed)
        #expect(world.fetches.isEmpty && world.state.requests.isEmpty)
        // The same URL as its own alternative ends as well.
        world.get(client, id: 2, "0") { options in
            options.alternatives = (0..<4).compactMap { _ in try? SourceURL("http://origin.test/0") }
        }
        #expect(world.error(client, 2) == .recentlyFailed)
    }

    @Test func `errors of the client have no alternative`() throws {
        let other = try url("b")
        world.get(client, id: 1, "a") { $0.alternatives = [other] }
        world.happen(.messageReceived(client, .cancel(id: 2, request: 1)))
        #expect(world.error(client, 1) == .cancelled)
        world.get(client, id: 3, "a") { ($0.alternatives, $0.totalTimeoutMs) = ([other], 1000) }
        world.happen(.timePassed, after: 1001)
        #expect(world.error(client, 3) == .timeout && world.state.requests.isEmpty)
    }

    /// As after a redirect.
    @Test func `another origin gets no personal headers`() throws {
        let alternatives = [try url("b"), try url("c", of: "other.test"), try url("d")]
        world.get(client, id: 1, "a") {
            $0.alternatives = alternatives
            $0.retries = 0
            $0.credentials = Credentials(username: "user", password: "secret")
            $0.headers = [HeaderField(name: "cookie", value: "a=b"), HeaderField(name: "x", value: "y")]
        }
        for personal in [true, true, false, false] {
            let order = try #require(world.fetches.values.first?.order)
            #expect((order.credentials != nil) == personal)
            #expect(order.headers.contains(HeaderField(name: "cookie", value: "a=b")) == personal)
            #expect(order.headers.contains(HeaderField(name: "x", value: "y")))
            world.failFetch(try #require(world.fetches.keys.first), .tlsFailed)
        }
        #expect(world.error(client, 1) == .tlsFailed)
    }

    /// An alternative's image belongs to its URL, and to its user if it was loaded with the user's rights.
    @Test func `another user's failures and images are not shared`() throws {
        let other = try url("b")
        world.get(client, id: 1, "a") { ($0.alternatives, $0.retries, $0.cookies) = ([other], 0, true) }
        world.failFetch(try #require(world.fetches.keys.first), status: 404)
        try serve()
        #expect(world.image(client, 1)?.url == other.text)
        let stranger = world.connect(uid: 2000)
        #expect(world.getError(stranger, id: 1, "b") { $0.cache = .onlyIfCached } == .notCached)
    }

    @Test func `alternatives count among the weight of requests`() throws {
        let long = try url(String(repeating: "a", count: 5000))
        world.get(client, id: 1, "a") { $0.alternatives = [long, long] }
        #expect(world.state.pendingWeight(of: client) == 10)
        world.failFetch(try #require(world.fetches.keys.first), status: 404)
        #expect(world.state.pendingWeight(of: client) == 10)
        try serve()
        #expect(world.state.pendingWeight(of: client) == 0)
    }
}
