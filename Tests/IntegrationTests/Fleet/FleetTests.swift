/// Several brokers with one shared tier: the origin is asked once, and nothing fails or waits for long because of the
/// tier.
@Suite(.blocking, .timeLimit(.minutes(10))) struct FleetTests {
    /// Brokers with caches of their own, memcached servers, and an origin of small images.
    final class Fleet {
        let origin: TestOrigin
        let servers: [Memcached]
        private(set) var brokers: [TestBroker]

        init(
            brokers count: Int = 3, servers serverCount: Int = 2, arguments: [String] = [],
            _ handler: @escaping @Sendable (LocalOrigin.Request) -> LocalOrigin.Response = FleetTests.image
        ) throws {
            origin = try TestOrigin(handler)
            servers = try (0..<serverCount).map { _ in try Memcached() }
            let list = servers.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
            brokers = []
            for _ in 0..<count { brokers.append(try Self.broker(list, servers: serverCount, arguments)) }
        }

        /// Starts a broker with these servers, and waits until it asks them.
        static func broker(_ list: String, servers: Int = 1, _ arguments: [String] = []) throws -> TestBroker {
            let broker = try TestBroker(["--shared-tier", "memcached:" + list] + arguments, workers: 1)
            try broker.wait(for: "the tier is asked") { $0.sharedServers.count == servers }
            try broker.waitUntilIdle(workers: 1)
            return broker
        }

        var originRequests: Int { origin.requests.count }

        func clients() throws -> [RawClient] { try brokers.map { try RawClient($0.socketPath) } }

        /// Loads images by each client at once. Returns the number of requests that have reached the origin for that.
        func load(_ numbers: Range<Int>, by clients: [RawClient]) throws -> Int {
            let before = originRequests
            let ids = try clients.map { client in try numbers.map { try client.get(origin.url("/\($0)")) } }
            for (client, ids) in zip(clients, ids) { for id in ids { _ = try client.answer(to: id).image() } }
            return originRequests - before
        }
    }

    static let image: @Sendable (LocalOrigin.Request) -> LocalOrigin.Response = { request in
        png(tile(request.numberInPath), maxAge: 1000)
    }

    @Test func `a server that is killed fails no request`() throws {
        let fleet = try Fleet()
        let clients = try fleet.clients()
        var ids = try clients.map { client in
            try (0..<150).map { try client.get(fleet.origin.url("/\($0)")) }
        }
        _ = try clients[0].answer(to: ids[0].remove(at: 20)).image()
        fleet.servers[0].kill()
        for (client, ids) in zip(clients, ids) {
            for id in ids { _ = try client.answer(to: id).image() }
        }
        // Its keys go to the origin, those of the other server do not.
        for (client, broker) in zip(clients, fleet.brokers) {
            _ = try client.load(fleet.origin.url("/1000")).image()
            #expect(try broker.stats()[.failed] == 0)
        }
        // It is found to be missing when one of its keys is asked for.
        var number = 2000
        try eventually("the server is left out") {
            number += 1
            _ = try clients[0].load(fleet.origin.url("/\(number)")).image()
            return try fleet.brokers[0].stats().sharedServers.contains { $0.state == "ejected" }
        }
    }

    @Test func `records that wait to be written fit into the process's descriptors`() throws {
        let fleet = try Fleet(brokers: 1, servers: 1)
        let (client, broker) = (try fleet.clients()[0], fleet.brokers[0])
        let process = try #require(broker.status.children.first { $0.name == "imgtier" })
        broker.signal(process, SIGSTOP)
        // The process has answered nothing when the origin has, so that all records come at once.
        let ids = try (0..<320).map { try client.get(fleet.origin.url("/\($0)")) }
        for id in ids { _ = try client.answer(to: id).image() }
        broker.signal(process, SIGCONT)
        // On a busy machine the broker may have replaced it for not answering.
        try broker.wait(for: "the records are written") { stats in
            stats.sharedServers.first?.writes == 320 || !stats.lastDeaths.isEmpty
        }
        #expect(try broker.stats().lastDeaths.allSatisfy { $0.cause == .deadline })
    }

    /// A record with other metadata.
    private static func record(_ bytes: [UInt8], _ change: (String) -> String) -> [UInt8] {
        let length = (0..<4).reduce(0) { $0 | Int(bytes[8 + $1]) << (8 * $1) }
        let text = Array(change(String(decoding: bytes[12..<12 + length], as: UTF8.self)).utf8)
        return bytes[..<8] + (0..<4).map { UInt8(truncatingIfNeeded: text.count >> (8 * $0)) } + text
            + bytes[(12 + length)...]
    }

    /// Members that a reader of the whole frame, or of the last member of a name, would take for the message's own.
    private static let smuggled = #"},"type":"leased","job":1,"metadata":1"#

    @Test func `records that are poisoned, cut off or foreign are rejected and replaced`() throws {
        let fleet = try Fleet(brokers: 2, servers: 1)
        let clients = try fleet.clients()
        let server = fleet.servers[0]
        let process = try #require(fleet.brokers[1].status.children.first { $0.name == "imgtier" })
        let levels = String(repeating: "[", count: 70) + String(repeating: "]", count: 70)
        let numbers = String(repeating: "1,", count: 32_000) + "1"
        let damages: [([UInt8]) -> [UInt8]] = [
            { bytes in Array(bytes.dropLast(10)) },
            { bytes in bytes.dropLast() + [bytes[bytes.count - 1] ^ 1] },
            { _ in Array("something else".utf8) },
            { Self.record($0) { _ in "" } }, { Self.record($0) { String($0.dropLast()) } },
            { Self.record($0) { "{\"x\":\(levels)," + $0.dropFirst() } },
            { Self.record($0) { "[\(numbers)]" + $0 } },
            { Self.record($0) { "\0" + $0 } }, { Self.record($0) { $0 + "\0{\"type\":\"leased\",\"job\":1}" } },
            { Self.record($0) { $0.dropLast() + Self.smuggled + "}" } },
            { Self.record($0) { $0.replacing("\"key\":\"", with: "\"key\":\"0") } },
            { Self.record($0) { $0.replacing("\"bytes\":", with: "\"bytes\":1") } },
            { Self.record($0) { $0.replacing("\"expires\":1", with: "\"expires\":0.1") } },
            { Self.record($0) { $0.replacing("\"expires\":1", with: "\"expires\":9") } },
        ]
        // A listing may lack items that the server is moving, so an older one could look new.
        var known: Set<String> = []
        for (number, damage) in damages.enumerated() {
            let url = fleet.origin.url("/\(number)")
            #expect(try clients[0].load(url).image().source == .network)
            var name = ""
            try eventually("the record is written") {
                name = try server.names("imgbroker1:").first { !known.contains($0) } ?? ""
                return !name.isEmpty
            }
            known.insert(name)
            let bytes = try #require(try server.value(name))
            let damaged = damage(bytes)
            try server.set(name, damaged)
            #expect(try clients[1].load(url).image().source == .network, "record \(number)")
            // A replacement that is still to come could replace the record of the next round, or hide this one's name
            // from it.
            try eventually("the record is replaced") {
                let now = try server.value(name)
                return now != damaged && now?.count == bytes.count
            }
        }
        try fleet.brokers[1].wait(for: "they are counted") { $0.sharedServers[0].rejected >= damages.count }
        let isSame = process.isAlive && process.parent == fleet.brokers[1].status.pid
        let deaths = try fleet.brokers[1].stats().lastDeaths
        // On a busy machine the broker may have replaced it for not answering.
        let areSlow = deaths.allSatisfy { $0.kind == "tier" && $0.cause == .deadline }
        #expect(areSlow, "who has written them is not the process")
        #expect(isSame || !deaths.isEmpty)
    }

    @Test func `ctl tier shows the servers`() throws {
        let fleet = try Fleet(brokers: 1)
        let client = try fleet.clients()[0]
        for number in 0..<20 { _ = try client.load(fleet.origin.url("/\(number)")).image() }
        try fleet.brokers[0].wait(for: "all are written") { $0.sharedServers.reduce(0) { $0 + $1.writes } == 20 }
        let result = try imgbroker(["ctl", "--socket", fleet.brokers[0].socketPath, "tier"])
        #expect(result.exit == .status(0))
        for server in fleet.servers { #expect(result.output.contains("127.0.0.1:\(server.port)")) }
    }

    @Test func `without the program the broker says what to install`() throws {
        // The folder has scripts for the other workers alone.
        let folder = try ProgramFolder([:])
        let result = try run(
            folder.path + "/imgbroker",
            ["--disk-limit", "0", "--socket", folder.path + "/s", "--shared-tier", "memcached:127.0.0.1"])
        #expect(result.exit == .status(1) && result.errors.contains("install the package imgbroker-tier"), "\(result)")
    }
}

/// Run by `make test-fleet` alone and with the release build, because brokers that get no processor for 250 ms ask the
/// origin, as they should. So a busy machine gets further images until it is quiet for long enough.
@Suite(
    .serialized, .blocking, .enabled(if: ProcessInfo.processInfo.environment["IMGBROKER_TEST_FLEET"] == "1"),
    .timeLimit(.minutes(5)))
struct FleetTimingTests {
    @Test func `500 cold images on three brokers cause at most 525 origin requests`() throws {
        let fleet = try FleetTests.Fleet()
        let clients = try fleet.clients()
        var requests: [Int] = []
        try eventually("500 images cause at most 525 requests", within: 120) {
            try #require(requests.count < 8, "\(requests)")
            let first = requests.count * 500
            requests.append(try fleet.load(first..<first + 500, by: clients))
            return requests.last! <= 525
        }
        let stats = try fleet.brokers.map { try $0.stats() }
        #expect(requests.allSatisfy { $0 >= 500 }, "\(requests)")
        // However many there were, each image of each broker has come from the origin or from the tier.
        let (loads, hits) = stats.reduce((0, 0)) { ($0.0 + $1[.networkLoads], $0.1 + $1[.sharedHits]) }
        #expect(loads + hits == 1500 * requests.count && stats.allSatisfy { $0[.failed] == 0 })
        #expect(stats.flatMap(\.lastDeaths).isEmpty)
    }

    @Test func `a broker that is killed with a lease delays others by at most 11 s`() throws {
        let fleet = try FleetTests.Fleet(brokers: 2) { request in
            FleetTests.image(request).with { $0.hold = .beforeHeaders }
        }
        let clients = try fleet.clients()
        _ = try clients[0].get(fleet.origin.url("/1"))
        try eventually("the first broker asks the origin") { fleet.originRequests == 1 }
        let id = try clients[1].get(fleet.origin.url("/1"))
        fleet.brokers[0].signal(SIGKILL)
        fleet.origin.gate("/1").open()
        let waited = try milliseconds { _ = try clients[1].answer(to: id).image() }
        #expect(waited <= 11_000, "\(waited)")
        #expect(fleet.originRequests == 2)
    }

    @Test func `a partition costs one fetch per side`() throws {
        let fleet = try FleetTests.Fleet(brokers: 2, servers: 1)
        let relay = try Relay(to: fleet.servers[0].port)
        let other = try FleetTests.Fleet.broker("127.0.0.1:\(relay.port)")
        let clients = try fleet.clients() + [RawClient(other.socketPath)]
        var next = 0
        /// Loads 20 further images by all brokers until they cause `count` requests. They never cause fewer.
        func load(untilRequests count: Int, _ what: String) throws {
            try eventually(what, within: 120) {
                let requests = try fleet.load(next..<next + 20, by: clients)
                next += 20
                #expect(requests >= count)
                return requests == count
            }
        }
        try load(untilRequests: 20, "20 images are fetched once")
        relay.cut()
        try load(untilRequests: 40, "20 images are fetched once on each side")
        #expect(try other.stats()[.failed] == 0)
    }
}

/// What brokers get of each other through the shared tier. Run alone, because brokers that get no processor for 250 ms
/// ask the origin, as they should.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct FleetAnswerTimingTests {
    private func fleetWithKey(in directory: TemporaryDirectory) throws -> FleetTests.Fleet {
        let key = try directory.write("0123456789abcdef0123456789abcdef\n", to: "key")
        return try FleetTests.Fleet(brokers: 2, servers: 1, arguments: ["--shared-tier-key-file", key])
    }

    @Test func `with a key the records of others are rejected`() throws {
        let directory = try TemporaryDirectory()
        let signed = try fleetWithKey(in: directory)
        let url = signed.origin.url("/1")
        let clients = try signed.clients()
        _ = try clients[0].load(url).image()
        try eventually("the record is written") { try !signed.servers[0].names("imgbroker1:").isEmpty }
        #expect(try clients[1].load(url).image().source == .shared)
        let other = try FleetTests.Fleet.broker("127.0.0.1:\(signed.servers[0].port)")
        #expect(try RawClient(other.socketPath).load(url).image().source == .network)
    }

    @Test func `an encoded variant is shared by brokers with a key, and rejected when it was changed`() throws {
        let directory = try TemporaryDirectory()
        let fleet = try fleetWithKey(in: directory)
        let (clients, server) = (try fleet.clients(), fleet.servers[0])
        var variants: Set<String> = []
        for (number, isChanged) in [false, true].enumerated() {
            let url = fleet.origin.url("/\(number)")
            let made = try clients[0].load(url, #""as":"webp""#)
            #expect(try made.image().source == .network)
            var name = ""
            try eventually("the variant is written") {
                name =
                    try server.names("imgbroker1:").first { name in
                        let record = try server.value(name)
                        return !variants.contains(name) && record.map(Self.hasVariant) == true
                    } ?? ""
                return !name.isEmpty
            }
            variants.insert(name)
            if isChanged {
                var bytes = try #require(try server.value(name))
                bytes[bytes.count - 40] ^= 1
                try server.set(name, bytes)
            }
            #expect(try clients[1].load(url).image().source == .shared)
            let found = try clients[1].load(url, #""as":"webp""#)
            // The second is made of the original in memory.
            #expect(try found.image().source == (isChanged ? .memory : .shared))
            #expect(try found.image().bytes == made.image().bytes)
        }
        #expect(fleet.originRequests == 2)
    }

    private static func hasVariant(_ record: [UInt8]) -> Bool {
        String(decoding: record, as: UTF8.self).contains("\"variant\"")
    }

    @Test func `remove reaches the tier and no other broker, and clear does not reach the tier`() throws {
        let fleet = try FleetTests.Fleet(brokers: 2, servers: 1)
        let (clients, server, url) = (try fleet.clients(), fleet.servers[0], fleet.origin.url("/1"))
        _ = try clients[0].load(url).image()
        try eventually("the record is written") { try server.names("imgbroker1:").count == 1 }
        #expect(try clients[1].load(url).image().source == .shared)
        _ = try clients[0].ask("clear", #""tier":"all""#)
        #expect(try clients[0].load(url).image().source == .shared)
        _ = try clients[0].ask("remove", #""url":"\#(url)""#)
        try eventually("the record is gone") { try server.names("imgbroker1:").isEmpty }
        #expect(try clients[1].load(url).image().source == .memory)
        #expect(try clients[0].load(url).image().source == .network)
    }

    @Test func `failures are shared for their time`() throws {
        let fleet = try FleetTests.Fleet(brokers: 2, servers: 1) { _ in .status(404) }
        let (clients, url) = (try fleet.clients(), fleet.origin.url("/none"))
        #expect(try clients[0].failure(url).httpStatus == 404)
        try eventually("the record is written") { try !fleet.servers[0].names("imgbroker1:").isEmpty }
        #expect(try clients[1].failure(url).httpStatus == 404)
        #expect(fleet.originRequests == 1)
    }

    @Test func `the origin is asked when a server does not answer for 250 ms`() throws {
        let fleet = try FleetTests.Fleet(brokers: 1, servers: 1)
        let client = try fleet.clients()[0]
        _ = try client.load(fleet.origin.url("/1")).image()
        fleet.servers[0].stop()
        let image = try client.load(fleet.origin.url("/2"), #""trace":true"#).image()
        fleet.servers[0].goOn()
        #expect(image.source == .network)
        // The time from the lookup to the request to the origin.
        #expect(image.spans.contains { $0.name == "shared" && $0.microseconds >= 250_000 }, "\(image.spans)")
        #expect(try fleet.brokers[0].stats()[.failed] == 0)
    }
}
