import BrokerHarness
import CReference
import Foundation
import IPCProtocol
import LocalOrigin

/// A hit with a read of every byte, against caches that send the bytes through a socket: memcached and Redis over Unix
/// sockets. The client library maps the broker's descriptor and unmaps it each time, or, up to 256 KiB, copies it; the
/// others' bytes are received into memory that is reused. Both ends run on one processor.
enum TouchBenchmark {
    private static let pictures: [(id: String, name: String, width: Int, height: Int)] = [
        ("64k", "64 KB", 128, 128), ("1m", "1 MB", 512, 512), ("48m", "48 MB", 4000, 3000),
    ]

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        var routes: [String: LocalOrigin.Response] = [:]
        for picture in pictures {
            routes["/\(picture.id)"] = .ok(PNGFile.checkers(width: picture.width, height: picture.height))
        }
        let origin = try LocalOrigin(routes: routes)
        defer { origin.stop() }
        return try onOneProcessor {
            let broker = try BrokerProcess(run.broker, ["--workers", "1"])
            defer { broker.stop() }
            return try KeyValueStore.all(run.peers).flatMap { store in
                defer { store.stop() }
                return try pictures.prefix(run.scaled(3, 2)).map { picture in
                    let hit = try ClientProbe(broker, url: origin.url("/\(picture.id)"))
                    let bytes = picture.width * picture.height * 4
                    let pairs = try pairs(run, hit, try store.probe(bytes: bytes), bytes)
                    return Row(
                        "touch.\(store.id)-\(picture.id)", "hit of \(picture.name), every byte read",
                        against: "\(store.name), Unix socket, one core", pairs, unit: "µs", goal: 1, peer: store.name)
                }
            } + cached(run, broker)
        }
    }

    /// The medians of alternating short runs.
    private static func pairs(
        _ run: BenchmarkRun, _ hit: ClientProbe, _ probe: ByteProbe, _ bytes: Int
    ) throws -> Pairs {
        defer { probe.close() }
        let rounds = max(3, min(500, 20_000_000 / bytes))
        var buffer: [CChar] = []
        return try Pairs(
            run.scaled(15, 2), { Sample(values: try (0..<rounds).map { _ in try hit.roundTripAndRead() }).median },
            against: { Sample(values: try (0..<rounds).map { _ in try probe.fetch(into: &buffer) }).median })
    }

    /// A cached thumbnail: pixels here, a JPEG in nginx.
    private static func cached(_ run: BenchmarkRun, _ broker: BrokerProcess) throws -> [Row] {
        guard let nginx = try Nginx(run.peers, thumbnailSide: 256) else { return [] }
        defer { nginx.stop() }
        let picture = try SamplePicture(CREF_JPEG, width: 1024, height: 1024)
        let file = try TemporaryFile(picture.bytes)
        defer {
            picture.stop()
            file.remove()
        }
        var options = GetOptions()
        options.variant.width = 256
        let hit = try ClientProbe(broker, url: picture.newURL(), options)
        let pairs = try pairs(run, hit, try nginx.cachedThumbnail(of: file), 256 * 256 * 4)
        return [
            Row(
                "touch.nginx", "hit of a thumbnail of 256 × 256, every byte read",
                against: "nginx proxy_cache, Unix socket, one core", pairs, unit: "µs", goal: nil, peer: "nginx",
                note: "256 KiB of pixels here; nginx sends a JPEG, not yet decoded")
        ]
    }
}
