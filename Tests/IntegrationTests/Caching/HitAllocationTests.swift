import Foundation
import IPCProtocol
import LocalOrigin
import TestSupport
import Testing

/// Heap allocations of a hit, in the release build; a debug build allocates far more.
@Suite(.blocking, .timeLimit(.minutes(10))) struct HitAllocationTests {
    private static let folder = BuiltProducts.package + "/.build/release"

    @Test(.enabled("there is a release build") { FileManager.default.isExecutableFile(atPath: folder + "/imgbroker") })
    func allocationsOfAHit() throws {
        let counter = try AllocationCounter()
        let origin = try LocalOrigin(routes: ["/picture-with-a-name-of-some-length.png": png(tile(1))])
        defer { origin.stop() }
        let broker = try TestBroker(environment: counter.environment, folder: Self.folder, in: counter.directory)
        let client = try RawClient(broker.socketPath)
        try client.mapSegments()
        let url = origin.url("/picture-with-a-name-of-some-length.png")
        let buffer = try #require(try client.load(url).image().buffer)
        try broker.waitUntilIdle(workers: 2)

        func allocations(_ hit: () throws -> Void) throws -> Double {
            // The first hits let the tables grow.
            for _ in 0..<100 { try hit() }
            let before = try counter.count()
            for _ in 0..<1000 { try hit() }
            return Double(try counter.count() - before) / 1000
        }
        // With a lease held: one allocation, for the URL.
        let held = try allocations { _ = try client.load(url) }
        #expect(held < 1.5)
        #expect(try client.load(url).image().descriptors == 0)
        for _ in 0..<1101 { try client.release([buffer]) }
        // With the lease released each time: also the list of released numbers.
        try client.release([buffer])
        let renewed = try allocations {
            _ = try client.load(url)
            try client.release([buffer])
        }
        #expect(renewed < 2.5)
        #expect(try client.load(url).image().descriptors == 0)
    }
}
