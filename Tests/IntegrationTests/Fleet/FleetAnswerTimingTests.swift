import Foundation
import IPCProtocol
import LocalOrigin
import TestSupport
import Testing

/// What brokers get of each other through the shared tier. Run alone, because brokers that get no processor for 250 ms ask the origin, as
/// they should.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct FleetAnswerTimingTests {
    @Test func `with a key the records of others are rejected`() throws {
        let directory = try TemporaryDirectory()
        let key = directory.file("key")
        try Data("0123456789abcdef0123456789abcdef\n".utf8).write(to: URL(filePath: key))
        let signed = try FleetTests.Fleet(brokers: 2, servers: 1, arguments: ["--shared-tier-key-file", key])
        let url = signed.origin.url("/1")
        let clients = try signed.clients()
        _ = try clients[0].load(url).image()
        try eventually("the record is written") { try !signed.servers[0].names("imgbroker1:").isEmpty }
        #expect(try clients[1].load(url).image().source == .shared)
        let other = try TestBroker(["--shared-tier", "memcached:127.0.0.1:\(signed.servers[0].port)"], workers: 1)
        try other.wait(for: "the tier is asked") { $0.sharedServers.count == 1 }
        #expect(try RawClient(other.socketPath).load(url).image().source == .network)
    }

    @Test func `an encoded variant is shared by brokers with a key, and rejected when it was changed`() throws {
        let directory = try TemporaryDirectory()
        let key = directory.file("key")
        try Data("0123456789abcdef0123456789abcdef\n".utf8).write(to: URL(filePath: key))
        let fleet = try FleetTests.Fleet(brokers: 2, servers: 1, arguments: ["--shared-tier-key-file", key])
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
        let url = fleet.origin.url("/none")
        let clients = try fleet.clients()
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
