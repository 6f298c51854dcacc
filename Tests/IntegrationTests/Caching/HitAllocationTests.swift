import Foundation
import IPCProtocol
import LocalOrigin
import TestSupport
import Testing

/// A hit makes next to nothing on the heap. Of the release build, as the other one allocates whatever it likes.
@Suite(.blocking, .timeLimit(.minutes(10))) struct HitAllocationTests {
    private static let folder = BuiltProducts.package + "/.build/release"

    @Test(.enabled("there is a release build") { FileManager.default.isExecutableFile(atPath: folder + "/imgbroker") })
    func nextToNothing() throws {
        let directory = try TemporaryDirectory()
        let (library, counts) = (directory.file("counter.so"), directory.file("counts"))
        try Compiler.makeLibrary(library, of: "Tests/AllocationCounter/AllocationCounter.c")

        let origin = try LocalOrigin(routes: ["/picture-with-a-name-of-some-length.png": png(tile(1))])
        defer { origin.stop() }
        let broker = try BrokerProcess(
            environment: ["LD_PRELOAD=\(library)", "ALLOCATION_COUNT=\(counts)"], folder: Self.folder, in: directory)
        let client = try RawClient(broker.socketPath)
        let url = origin.url("/picture-with-a-name-of-some-length.png")
        let buffer = try #require(try client.load(url).image().buffer)
        try broker.waitUntilIdle(workers: 2)

        func allocations(_ hit: () throws -> Void) throws -> Double {
            func count() throws -> Int {
                let file = try FileHandle(forReadingFrom: URL(filePath: counts))
                let bytes = try #require(try file.read(upToCount: 8))
                return bytes.reversed().reduce(0) { $0 << 8 | Int($1) }
            }
            // The tables grow in the first ones.
            for _ in 0..<100 { try hit() }
            let before = try count()
            try #require(before > 0, "it counts")
            for _ in 0..<1000 { try hit() }
            return Double(try count() - before) / 1000
        }
        // The lease is held all the time: the URL is the only one.
        let held = try allocations { _ = try client.load(url) }
        #expect(held < 1.5)
        #expect(try client.load(url).image().descriptors == 0)
        for _ in 0..<1101 { try client.release([buffer]) }
        // Given back each time: also the numbers that are given back, and the descriptor on its way.
        try client.release([buffer])
        let renewed = try allocations {
            _ = try client.load(url)
            try client.release([buffer])
        }
        #expect(renewed < 3.5)
        #expect(try client.load(url).image().descriptors == 1)
    }
}
