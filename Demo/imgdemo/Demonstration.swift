import BrokerHarness
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// The demonstration: a broker, an origin, and processes that all request the same images; then the same with another
/// broker on the same cache directory.
struct Demonstration {
    /// The extensions of the files that are shown of a folder.
    private static let extensions = [
        "jpg", "jpeg", "png", "webp", "gif", "avif", "heic", "heif", "jxl", "svg", "tif", "tiff", "bmp", "ico", "cur",
        "pbm", "pgm", "ppm", "pam", "qoi", "tga", "jp2", "j2k", "jpc", "j2c",
    ]

    private let output: String
    private let processes: Int
    private let session: Session
    /// The path of this program, beside those of the broker.
    private let program: String
    private let names: [String]
    private let origin: LocalOrigin
    private let brokerPath: String

    /// Starts an origin with the images in the folder `images`, or with generated ones.
    init(images: String?, output: String, processes: Int, session: Session) throws {
        (self.output, self.processes, self.session) = (output, processes, session)
        program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        brokerPath = URL(filePath: program).deletingLastPathComponent().appending(path: "imgbroker").path
        let folder = images ?? session.directory + "/images"
        if images == nil {
            print("No folder was given with IMAGES=…, so images are generated.")
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            let broker = try session.startBroker(brokerPath, [])
            try SampleImages(folder: folder, broker: try broker.client()).write()
            try session.stop(broker)
        }
        names = try FileManager.default.contentsOfDirectory(atPath: folder).filter {
            Self.extensions.contains(URL(filePath: $0).pathExtension.lowercased())
        }.sorted()
        if names.isEmpty {
            let extensions = Self.extensions.joined(separator: ", ")
            throw HarnessFailure("\(folder) holds no files with the extensions \(extensions)")
        }
        origin = try LocalOrigin(folder: folder)
    }

    /// Runs the demonstration. Returns whether each image was transferred once, the origin got no request for an image
    /// after the restart, and all processes agree.
    func run() throws -> Bool {
        print(
            "A broker with 4 decode workers and an empty disk cache listens, an origin serves \(names.count) images, "
                + "\(processes) processes request each in \(ImageSize.allCases.count) sizes.")
        let first = try observe(after: nil) { _, _ in }.0
        print("\nThe broker was shut down; another one uses its cache directory. New processes request the same.")
        let path = output + "/contact-sheet.png"
        let outcome = try observe(after: first) { second, broker in
            let outcome = Outcome(names: names, first: first, second: second)
            let sheet = ContactSheet.draw(
                try tiles(outcome, broker) + processed(outcome, broker), title: "imgbroker",
                subtitles: [outcome.firstSummary, outcome.secondSummary])
            try FileManager.default.createDirectory(atPath: output, withIntermediateDirectories: true)
            try Data(try broker.encode(sheet.png, as: .png)).write(to: URL(filePath: path))
            return outcome
        }.1
        print("\n" + ResultTable(outcome).text)
        print(outcome.firstSummary + " It took \(outcome.first.milliseconds) ms.")
        print(outcome.secondSummary + " It took \(outcome.second.milliseconds) ms.")
        print("\nContact sheet: \(URL(filePath: path).standardizedFileURL.path)")
        for deviation in outcome.deviations { FileHandle.standardError.write(Data("imgdemo: \(deviation)\n".utf8)) }
        if outcome.deviations.isEmpty {
            print("Each URL was transferred once, and all processes saw the same pixels, before and after the restart.")
        }
        return outcome.deviations.isEmpty
    }

    /// The path of an image at the origin.
    private func path(_ name: String) -> String {
        "/" + (name.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? name)
    }

    // MARK: Runs

    /// Starts a broker and client processes, sends all requests, calls `body` while both still run, and stops them.
    private func observe<Value>(
        after previous: RunResult?, _ body: (RunResult, ImageBroker) throws -> Value
    ) throws -> (RunResult, Value) {
        let process = try session.startBroker(
            brokerPath, ["--workers", "4", "--cache-dir", session.directory + "/cache", "--max-download", "1G"])
        try process.wait(for: "the disk tier is on") { $0.diskState == "on" }
        let broker = try process.client()
        let entriesBefore = try broker.stats()[.diskEntries]
        let clients = try ClientGroup(processes, program: program, socket: process.socketPath)
        let sizes = ImageSize.allCases
        let start = Date()
        let results = try clients.send(
            names.flatMap { name in sizes.map { ImageRequest(url: origin.url(path(name)), size: $0) } })
        let milliseconds = Int(Date().timeIntervalSince(start) * 1000)
        // Then the results have been written to disk.
        try process.wait(for: "the broker is idle") { $0[.queued] == 0 && $0[.running] == 0 }
        let run = RunResult(
            images: names.indices.map { image in
                Dictionary(uniqueKeysWithValues: zip(sizes, results[(image * sizes.count)...]))
            },
            originRequests: names.enumerated().map { index, name in
                origin.requests(path(name)).count - (previous?.originRequests[index] ?? 0)
            }, processes: processes, stats: try broker.stats(), entriesBefore: entriesBefore,
            milliseconds: milliseconds)
        let mapped = clients.mappedBytes
        if mapped.resident > 0 {
            print(
                "By the kernel's count the processes map \(Outcome.megabytes(mapped.resident)) of pixels, which take "
                    + "\(Outcome.megabytes(mapped.proportional)) of memory.")
        }
        print("\n$ imgbroker ctl stats\n")
        let table = try LineProcess(brokerPath, ["ctl", "stats", "--socket", process.socketPath])
        while let line = table.line() { print(line) }
        let value = try body(run, broker)
        clients.stop()
        try session.stop(process)
        return (run, value)
    }

    // MARK: Contact sheet

    /// Requests the images once more, as another client; they come from memory.
    private func tiles(_ outcome: Outcome, _ broker: ImageBroker) throws -> [ContactSheet.Tile] {
        try names.enumerated().flatMap { index, name in
            var tiles = [ContactSheet.Tile(name: name, remark: "no image")]
            for size in ImageSize.allCases {
                tiles[0].failures[size] = outcome.failure(index, size)
                if tiles[0].failures[size] != nil { continue }
                let image = try broker.get(origin.url(path(name)), size.options)
                tiles[0].rasters[size] = image.rasters[0]
                guard size == .medium, let example = outcome.example(index) else { continue }
                let original = "\(example.originalWidth) × \(example.originalHeight)"
                let info = image.reply
                tiles[0].remark = "\(example.format) \(original) → \(info.width) × \(info.height)"
                if info.frameCount > 1 { tiles.append(try animation(name, broker)) }
            }
            return tiles
        }
    }

    /// Tiles with crops and steps of the first large image.
    private func processed(_ outcome: Outcome, _ broker: ImageBroker) throws -> [ContactSheet.Tile] {
        let examples = names.indices.compactMap { index in
            outcome.example(index).map { (name: names[index], width: $0.originalWidth, height: $0.originalHeight) }
        }
        guard let example = examples.first(where: { min($0.width, $0.height) >= 600 }) ?? examples.first else {
            return []
        }
        return try ProcessedResults.all(width: example.width, height: example.height).map { results in
            let rasters = try results.variants.map { variant in
                var options = GetOptions()
                options.variant = variant
                return try broker.get(origin.url(path(example.name)), options).rasters[0]
            }
            return ContactSheet.Tile(
                name: results.name, remark: results.remark, frames: rasters, frameBox: ContactSheet.result)
        }
    }

    /// A tile with the frames of an animation.
    private func animation(_ name: String, _ broker: ImageBroker) throws -> ContactSheet.Tile {
        var options = GetOptions()
        options.variant.frames = .all
        (options.variant.width, options.variant.height) = (ContactSheet.frame.width, ContactSheet.frame.height)
        let image = try broker.get(origin.url(path(name)), options)
        let (delays, loops) = (image.reply.timing?.delaysMs ?? [], image.reply.timing?.loops ?? 1)
        let remark = "\(delays.count) frames, \(Double(delays.reduce(0, +)) / 1000) s, "
        return ContactSheet.Tile(
            name: name, remark: remark + (loops == 0 ? "forever" : "\(loops) times"), frames: image.rasters)
    }
}

extension ImageBroker {
    /// Encodes a PNG file as `format`: stores it in the cache, and requests it like any other image.
    func encode(_ png: PNGFile, as format: GetOptions.Representation) throws -> [UInt8] {
        let url = try SourceURL("http://imgdemo.example/\(UUID())")
        try store(png.bytes, as: url)
        var options = GetOptions()
        options.representation = format
        return try get(url.text, options).withBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Array($0) } }
    }
}

extension BrokerImage {
    /// The pixels: one raster, or one for each frame of an animation.
    var rasters: [ContactSheet.Raster] {
        let bytes = withBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Array($0) } }
        let count = max(1, reply.timing?.delaysMs.count ?? 1)
        let step = bytes.count / count
        return (0..<count).map {
            let frame = Array(bytes[$0 * step..<($0 + 1) * step])
            return ContactSheet.Raster(width: reply.width, height: reply.height, bytes: frame)
        }
    }
}
