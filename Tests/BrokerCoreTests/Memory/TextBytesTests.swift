import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Texts of clients and origins are charged: to the requests that hold them, then to the budget of the index.
struct TextBytesTests {
    private static let long = String(repeating: "x", count: 8000)

    @Test(arguments: ["credentials", "cacheKey", "headers"])
    func `each text of a request has weight`(name: String) throws {
        let text = String(Self.long.prefix(1500))
        var options = GetOptions()
        switch name {
        case "credentials": options.credentials = Credentials(username: "u", password: text)
        case "cacheKey": options.cacheKey = text
        default: options.headers = [HeaderField(name: "x", value: text)]
        }
        let url = try SourceURL("http://origin.test/")
        #expect(GetRequest(id: 1, url: url).weight == 1)
        #expect(GetRequest(id: 1, url: url, options: options).weight == 2)
    }

    @Test func `so has the type of stored bytes`() throws {
        let url = try SourceURL("http://origin.test/")
        let type = String(repeating: "t", count: 1500)
        #expect(StoreRequest(id: 1, url: url, contentType: type, payload: 0).weight == 2)
    }

    @Test func `an index full of long URLs is full`() throws {
        let (world, client) = StrictWorld.ready { $0.memoryBytes = 100_000 }.connected()
        for number in 1...40 {
            world.get(client, id: number, "\(number)/\(Self.long)") { $0.delivery = .none }
            try world.finishFetch(content: number, bytes: 10)
            try world.decode(width: 1, height: 1)
        }
        #expect(world.state.memory.entries < 30 && world.state.memory.textBytes <= 100_000)
    }

    @Test func `keys do not repeat the headers`() throws {
        func key(_ value: String) throws -> OriginalKey {
            var options = GetOptions()
            options.headers = [HeaderField(name: "x", value: value)]
            return OriginalKey(GetRequest(id: 1, url: try SourceURL("http://origin.test/"), options: options), uid: 1)
        }
        #expect(try key(Self.long) == key(Self.long) && key(Self.long) != key(Self.long + "y"))
        #expect(try key(Self.long).textBytes == 19)
        #expect(try key("a").word != key("b").word)
    }

    @Test func `originals with equal bytes are bounded by their texts`() throws {
        let (world, client) = StrictWorld.ready().connected()
        for number in 1...60 {
            world.get(client, id: number, "\(number)/\(Self.long)") { $0.delivery = .none }
            try world.finishFetch(content: 1, bytes: 10)
            world.decodeAll(width: 1, height: 1)
        }
        #expect(world.state.memory.textBytes <= 300_000)
    }

    @Test func `recent failures are bounded by their memory, and shorten messages`() throws {
        var failures = RecentFailures()
        let now = Instant(nanoseconds: 0)
        for number in 0..<1000 {
            let url = try SourceURL("http://origin.test/\(number)/\(Self.long)")
            let key = OriginalKey(GetRequest(id: 1, url: url), uid: 1)
            let error = WireError(.decodeFailed, Self.long)
            _ = failures.note(error, key: key, form: .original, url: url.text, lifetime: nil, at: now)
        }
        #expect(failures.bytes <= RecentFailures.maximumBytes && failures.count(at: now) > 100)
        #expect(failures.entries(at: now).allSatisfy { $0.error.message.count == RecentFailures.longestMessage })
        _ = failures.clear(url: nil)
        #expect(failures.bytes == 0)
    }

    @Test func `the cache keys of recent failures count too`() throws {
        var failures = RecentFailures()
        let now = Instant(nanoseconds: 0)
        for number in 0..<5000 {
            let url = try SourceURL("http://origin.test/")
            var options = GetOptions()
            options.cacheKey = "\(number) \(Self.long.prefix(1000))"
            let key = OriginalKey(GetRequest(id: 1, url: url, options: options), uid: 1)
            let error = WireError(.decodeFailed, "It failed.")
            _ = failures.note(error, key: key, form: .original, url: url.text, lifetime: nil, at: now)
        }
        #expect(failures.count(at: now) * 1000 <= RecentFailures.maximumBytes)
    }
}

/// What `stats` tells a user who is no administrator.
struct UserReportTests {
    @Test func `a user sees figures of the own requests alone`() throws {
        let world = StrictWorld.ready()
        let (mine, other, admin) = (
            world.connect(uid: 1), world.connect(uid: 2), world.connect(uid: 0, isAdmin: true)
        )
        func stats(_ client: ClientID) throws -> StatsReport {
            world.happen(.messageReceived(client, .stats(id: 99)))
            for case .reply(client, .stats(_, let report), _) in world.lastActions { return report }
            Issue.record("no answer")
            return StatsReport()
        }
        let before = try stats(mine)
        for id in 1...3 {
            world.get(other, id: id, "a")
            guard let fetch = world.fetches.keys.first else { continue }
            world.finishFetch(fetch, content: 1)
            try world.decode()
        }
        #expect(try stats(mine) == before)
        #expect(try stats(other)[.memoryHits] == 2 && stats(other)[.requests] == 3)
        #expect(try stats(other)[.leasedBytes] == 400 && stats(mine)[.leasedBytes] == 0)
        #expect(try stats(other)[.decodes] == 0)
        #expect(try stats(admin)[.decodes] == 1 && stats(admin)[.requests] == 3)
        world.get(mine, id: 1, "a")
        #expect(try stats(mine)[.memoryHits] == 1 && stats(mine)[.clients] == 1)
        #expect(before[.memoryLimitBytes] == world.state.limits.memoryBytes)
    }
}
