import BrokerHarness
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// The density of small images in memory: how many a broker with 20,000 descriptors keeps, and the memory of each besides
/// its pixels.
enum SmallMemoryBenchmark {
    /// The limit of descriptors, if this process may have as many.
    private static let descriptors = 20_000

    /// A broker that has loaded images until it evicted some.
    private struct Filled {
        /// The number of images that are in memory.
        let images: Int
        /// The growth of the broker's resident memory for each of them, in bytes.
        let residentBytes: Double
        /// The bytes of all their pixels, and of the pages that hold these.
        let pixelBytes: Int
        let pageBytes: Int
    }

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let images = try SmallImages(run.scaled(200, 20), sides: 40...64)
        let origin = try images.anyNumber()
        defer {
            origin.stop()
            images.remove()
        }
        let cache = NSTemporaryDirectory() + "imgbench-\(getpid()).cache"
        defer { try? FileManager.default.removeItem(atPath: cache) }
        let full = try fill(run, origin, ["--cache-dir", cache])
        let memoryOnly = try fill(run, origin, [])
        let each = Double(full.images)
        return [
            perImage("descriptors", "descriptors for each small image in memory", full, run),
            perImage("descriptors-memory", "the same without a disk tier, originals included", memoryOnly, run),
            Row(
                "small-memory.broker", "resident memory of the broker for each small image",
                against: "768 bytes, the goal for an object", ratio: Sample(values: [full.residentBytes / 768]).spread,
                goal: nil, figures: [Row.Figure(name: "imgbroker", value: full.residentBytes)], unit: "bytes",
                note: "the image's memfd not counted"),
            Row(
                "small-memory.pages", "pages of small images", against: "their pixels",
                ratio: Sample(values: [Double(full.pageBytes) / Double(full.pixelBytes)]).spread, goal: nil,
                figures: [
                    Row.Figure(name: "imgbroker", value: Double(full.pageBytes) / 1024 / each),
                    Row.Figure(name: Row.reference, value: Double(full.pixelBytes) / 1024 / each),
                ], unit: "KiB", note: "squares of 40 to 64 pixels a side"),
        ]
    }

    private static func limit(_ run: BenchmarkRun) -> Int { min(run.scaled(descriptors, 1_024), descriptorLimit()) }

    private static func perImage(_ id: String, _ what: String, _ filled: Filled, _ run: BenchmarkRun) -> Row {
        let each = Double(limit(run)) / Double(filled.images)
        return Row(
            "small-memory.\(id)", what, against: "one for each, all descriptors", ratio: Sample(values: [each]).spread,
            goal: nil, figures: [Row.Figure(name: "imgbroker", value: each)], unit: "descriptors",
            note: "\(filled.images) images with \(limit(run)) descriptors")
    }

    private static func fill(_ run: BenchmarkRun, _ origin: LocalOrigin, _ options: [String]) throws -> Filled {
        let broker = try BrokerProcess(
            run.broker, ["--memory-limit", "4G"] + options, descriptors: limit(run))
        defer { broker.stop() }
        let client = try broker.client()
        let tree = ProcessTree([broker.pid])
        let emptyBytes = ProcessTree.bufferBytes(of: broker.pid)
        // Tables that are allocated once.
        var bytes: [Int] = []
        let first = 100
        try load(first, into: &bytes, client, origin)
        try broker.settle(tenths: run.scaled(20, 3))
        let resident = tree.residentMemory(of: "imgbroker").max() ?? 0
        // Enough evictions that work in flight has no part in what remains.
        while try client.stats()[.evictions] < run.scaled(1_000, 100), bytes.count < 40_000 {
            try load(200, into: &bytes, client, origin)
        }
        try broker.settle(tenths: run.scaled(20, 3))
        let growth = (tree.residentMemory(of: "imgbroker").max() ?? 0) - resident
        let present = try bytes.indices.filter { try client.query(SourceURL(origin.url("/\($0)"))).memory }
        return Filled(
            images: present.count, residentBytes: Double(growth) / Double(present.count - first),
            pixelBytes: present.reduce(0) { $0 + bytes[$1] },
            pageBytes: ProcessTree.bufferBytes(of: broker.pid) - emptyBytes)
    }

    /// Loads `count` further images, with as many requests in flight as a feed has. Adds the bytes of each to `bytes`.
    private static func load(
        _ count: Int, into bytes: inout [Int], _ client: ImageBroker, _ origin: LocalOrigin
    ) throws {
        var options = GetOptions()
        options.delivery = .none
        let end = bytes.count + count
        var (numbers, sent, received) = ([Int: Int](), bytes.count, 0)
        bytes += [Int](repeating: 0, count: count)
        while received < count {
            while sent < end, numbers.count < 64 {
                numbers[try client.send(get: SourceURL(origin.url("/\(sent)")), options)] = sent
                sent += 1
            }
            guard case .image(let id, let image) = try client.receive(), let number = numbers.removeValue(forKey: id)
            else { throw Failure("an image is not loaded") }
            bytes[number] = image.reply.bytes
            received += 1
        }
    }
}
