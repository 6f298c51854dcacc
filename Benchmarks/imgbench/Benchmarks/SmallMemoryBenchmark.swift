import BrokerHarness
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// The density of small images in memory: how many a broker with 1,024 descriptors keeps, and the memory of each
/// besides its pixels.
enum SmallMemoryBenchmark {
    private static let descriptors = 1_024
    /// The goal in bytes.
    private static let goal = 800.0
    private static let images = 200_000

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let samples = try SmallImages(run.scaled(200, 20), sides: 16...32)
        let origin = try samples.anyNumber()
        defer {
            origin.stop()
            samples.remove()
        }
        let count = run.scaled(images, 3_000)
        let caching = try CachingBroker(run, ["--memory-limit", "4G"], descriptors: descriptors)
        defer { caching.stop() }
        let broker = caching.process
        let client = try broker.client()
        // Tables and the first pages of everything.
        let first = 100
        var pixels = try load(0..<first, client, origin)
        try broker.settle(tenths: run.scaled(20, 3))
        let before = memory(of: broker)
        let pixelsBefore = pixels.reduce(0, +)
        pixels += try load(first..<count, client, origin)
        try broker.settle(tenths: run.scaled(20, 3))
        let growth = memory(of: broker) - before
        let present = try pixels.indices.count { try client.query(SourceURL(origin.url("/\($0)"))).memory }
        let each = Double(present - first)
        let pixelBytes = Double(pixels.reduce(0, +) - pixelsBefore)
        return [
            Row(
                "small-memory.images", "small images in memory", against: "the number loaded",
                ratio: Sample(values: [Double(present) / Double(count)]).spread, goal: nil,
                figures: [
                    Row.Figure(name: "imgbroker", value: Double(present)),
                    Row.Figure(name: Row.reference, value: Double(count)),
                ], unit: "images", note: "with \(descriptors) descriptors; squares of 16 to 32 pixels a side"),
            Row(
                "small-memory.overhead", "memory of each besides its pixels", against: "800 bytes, the goal",
                ratio: Sample(values: [(Double(growth) - pixelBytes) / each / goal]).spread, goal: 1,
                figures: [Row.Figure(name: "imgbroker", value: (Double(growth) - pixelBytes) / each)], unit: "bytes",
                note: "resident memory and memfds of the broker"),
        ]
    }

    /// The bytes of the broker's own memory and of the memfds that it has open.
    private static func memory(of broker: BrokerProcess) -> Int {
        ProcessTree.ownMemory(of: broker.pid) + ProcessTree.bufferBytes(of: broker.pid)
    }

    /// Loads images with as many requests in flight as a feed has. Returns the bytes of each.
    private static func load(
        _ range: Range<Int>, _ client: ImageBroker, _ origin: LocalOrigin
    ) throws -> [Int] {
        var options = GetOptions()
        options.delivery = .none
        var bytes = [Int](repeating: 0, count: range.count)
        try client.load(range.map { origin.url("/\($0)") }, options) { bytes[$0] = $1.reply.bytes }
        return bytes
    }
}
