import BrokerHarness
import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient

/// A thumbnail from a large image whose bytes are in memory, against a bare loop over libjpeg-turbo with the
/// same DCT factor and an area average, and against other programs that make thumbnails, whose files are in the page
/// cache.
enum ThumbnailBenchmark {
    /// The side of nginx's thumbnails, and of those whose memory is measured.
    private static let mainSide = 256
    private struct Subject {
        let id: String
        let name: String
        let format: cref_format
        let width: Int
        let height: Int
        /// The goal for the ratio to a peer's time.
        var peerGoal = 1.0
        /// The widths of the thumbnails in pixels.
        var sides = [mainSide]
    }
    private static let subjects = [
        // On both sides of the width up to which the library may decode an eighth, 263.
        Subject(
            id: "jpeg-12", name: "12 MP JPEG", format: CREF_JPEG, width: 4000, height: 3000,
            sides: [mainSide, 250, 264, 320, 512]),
        Subject(id: "jpeg-36", name: "36 MP JPEG", format: CREF_JPEG, width: 7360, height: 4912),
        Subject(
            id: "progressive-12", name: "12 MP progressive JPEG", format: CREF_PROGRESSIVE_JPEG, width: 4000,
            height: 3000, peerGoal: 1.0 / 3),
        Subject(id: "png-12", name: "12 MP PNG", format: CREF_PNG, width: 4000, height: 3000),
        Subject(id: "webp-12", name: "12 MP WebP", format: CREF_WEBP, width: 4000, height: 3000),
    ]

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let python = try LineProcess(python: run.peers, ["serve"])
        defer { python?.stop() }
        if python == nil { printLine("no Pillow, no pyvips: scripts/bootstrap.sh --for-benchmarks installs them") }
        let nginx = try Nginx(run.peers, thumbnailSide: mainSide)
        defer { nginx?.stop() }
        return try subjects.flatMap { subject in
            try subject.sides.prefix(run.scaled(subject.sides.count, 2)).flatMap { side in
                try rows(run, subject, side, python, side == mainSide ? nginx : nil)
            }
        }
    }

    private static func rows(
        _ run: BenchmarkRun, _ subject: Subject, _ side: Int, _ python: LineProcess?, _ nginx: Nginx?
    ) throws -> [Row] {
        let (width, height) = run.scaled((subject.width, subject.height), (800, 600))
        let loads = try SampleLoads(run, subject.format, width: width, height: height, ["--workers", "1"])
        defer { loads.stop() }
        let (picture, broker, client) = (loads.picture, loads.broker, loads.client)
        let file = try TemporaryFile(picture.bytes)
        defer { file.remove() }
        // Of a worker that is still warming up, the rest of the warm-up would count as growth.
        _ = try broker.idleWorkers("imgworker", 2, client)
        let idle = broker.workersPeaks()
        var options = GetOptions()
        options.variant.width = side
        // The broker's rule: the smallest factor that leaves at least 1.9 times the target.
        let eighths = [1, 2, 4].first { Double(width * $0 / 8) >= 1.9 * Double(side) } ?? 8
        var (loop, pillow, pyvips, filter) = (Pairs(), Pairs(), Pairs(), Pairs())
        for _ in 0..<run.scaled(9, 2) {
            let url = picture.newURL()
            _ = try client.loadOriginal(url)
            let time = try timed { try client.get(url, options) }.milliseconds
            try client.forget(url)
            if subject.format == CREF_JPEG {
                let reference = picture.bytes.withUnsafeBufferPointer {
                    cref_average_jpeg(
                        $0.baseAddress, $0.count, Int32(eighths), UInt32(side), UInt32(side * height / width))
                }
                loop.add(time, against: Double(reference) / 1e6)
                if let nginx { filter.add(time, against: try nginx.thumbnail(of: file)) }
            }
            if let python {
                pillow.add(time, against: try python.thumbnail("pillow", path: file.path, side: side))
                pyvips.add(time, against: try python.thumbnail("pyvips", path: file.path, side: side))
            }
        }
        let grown = broker.workersPeaks().compactMap { worker, peak in idle[worker].map { peak - $0 } }.max() ?? 0
        let what = "\(side) px of a \(subject.name)"
        let id = side == mainSide ? subject.id : "\(subject.id)-\(side)"
        var rows: [Row] = []
        if subject.format == CREF_JPEG {
            rows.append(
                Row(
                    "thumbnail.\(id)-loop", what,
                    against: "C loop over libjpeg-turbo at \(eighths)/8, area average", loop,
                    unit: "ms", goal: 1.1))
        }
        for (name, peer, pairs) in [("Pillow", "pillow", pillow), ("pyvips", "pyvips", pyvips)]
        where !pairs.ours.values.isEmpty {
            let isThird = subject.format == CREF_PROGRESSIVE_JPEG && peer == "pillow"
            rows.append(
                Row(
                    "thumbnail.\(id)-\(peer)", what, against: name, pairs, unit: "ms",
                    goal: isThird ? subject.peerGoal : 1, peer: name))
        }
        if !filter.ours.values.isEmpty {
            rows.append(
                Row(
                    "thumbnail.\(id)-nginx", what, against: "nginx image_filter", filter, unit: "ms", goal: 1,
                    peer: "nginx", note: "nginx's time has the encoding as JPEG in it"))
        }
        // A worker that has grown by more than 64 MiB is replaced, and its figure is lost.
        if side == mainSide, grown > 0, let row = try memory(run, subject, "memory for " + what, file, grown) {
            rows.append(row)
        }
        return rows
    }

    /// The growth of the worker plus the result, against the growth of the better peer.
    private static func memory(
        _ run: BenchmarkRun, _ subject: Subject, _ what: String, _ file: TemporaryFile, _ grown: Int
    ) throws -> Row? {
        var peaks: [Row.Figure] = []
        for (name, id) in [("Pillow", "pillow"), ("pyvips", "pyvips")] {
            guard let process = try LineProcess(python: run.peers, ["peak", id, file.path, "\(mainSide)"]) else {
                return nil
            }
            defer { process.stop() }
            peaks.append(Row.Figure(name: name, value: mebibytes(Int(try process.number("\(name) has no peak")))))
        }
        let ours = mebibytes(grown + mainSide * mainSide * 4)
        let ratio = ours / (peaks.map(\.value).min() ?? 1)
        return Row(
            "thumbnail.\(subject.id)-memory", what, against: "the better of Pillow and pyvips",
            ratio: Sample(values: [ratio]).spread, goal: subject.format == CREF_JPEG ? 0.25 : nil,
            figures: [Row.Figure(name: "imgbroker", value: ours)] + peaks, unit: "MiB",
            note: "growth over idle, result included")
    }
}

/// A file of the given bytes in the temporary folder.
struct TemporaryFile {
    let path: String
    var name: String { URL(filePath: path).lastPathComponent }

    init(_ bytes: [UInt8]) throws {
        path = temporaryPath("picture")
        try Data(bytes).write(to: URL(filePath: path))
    }

    func remove() { try? FileManager.default.removeItem(atPath: path) }
}
