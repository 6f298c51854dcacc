import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LinuxSystem
import LocalOrigin
import SystemValues

/// The whole demonstration: a broker, an origin, and processes that all want the same; then the same once more with
/// another broker on the same cache directory.
struct Demonstration {
    private static let extensions: Set<String> = ["jpg", "jpeg", "png", "webp", "gif"]

    /// The folder with the pictures; nil for some drawn here.
    let images: String?
    /// The folder for the contact sheet.
    let output: String
    /// How many processes ask.
    let processes: Int
    let household: Household

    /// What stays the same in both runs.
    private struct Setting {
        /// The folder of the programs.
        let programs: String
        let ownProgram: String
        let origin: LocalOrigin
        let names: [String]
        let socket: String
        let cache: String
        let list: String

        var paths: [String] { names.map { "/" + Demonstration.percentEncoded($0) } }
        /// Each picture in each size, the smallest first, as whoever shows pictures would ask.
        var wishes: [Wish] {
            paths.flatMap { path in PictureSize.allCases.map { Wish(url: origin.url(path), size: $0) } }
        }
    }

    /// Shows everything and returns the exit status: 0 when each URL was transferred once, nothing was asked of the
    /// origin after the restart, and all processes agree.
    func run() throws -> Int32 {
        guard let own = CurrentProcess.executablePath, let slash = own.lastIndex(of: "/") else {
            throw DemoFailure("its own path is not known")
        }
        let programs = String(own[..<slash])
        let encoder = try PictureEncoder(programs + "/imgworker", household: household)
        let folder = try pictureFolder(encoder)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder).filter { name in
            name.split(separator: ".").count > 1
                && Self.extensions.contains(name.split(separator: ".").last!.lowercased())
        }.sorted()
        if names.isEmpty { throw DemoFailure("\(folder) holds no .jpg, .jpeg, .png or .webp files") }

        let origin = try LocalOrigin(folder: folder)
        defer { origin.stop() }
        let setting = Setting(
            programs: programs, ownProgram: own, origin: origin, names: names,
            socket: household.directory + "/imgbroker.sock", cache: household.directory + "/cache",
            list: household.directory + "/wishes")
        let list = setting.wishes.map(\.line).joined(separator: "\n")
        try list.write(toFile: setting.list, atomically: true, encoding: .utf8)
        say(
            "A broker with 4 decode workers and an empty disk cache listens, an origin serves \(names.count) images, "
                + "\(processes) processes ask for each in \(PictureSize.allCases.count) sizes.")
        let (first, _) = try observe(setting, before: nil) { _ in }

        say("\nThe broker was ended (SIGTERM); another one takes over its cache directory. New processes ask again.")
        let (tally, sheet) = try observe(setting, before: first) { second in
            let tally = Tally(names: names, first: first, second: second)
            return (tally, try contactSheet(tally, setting))
        }.1

        try FileManager.default.createDirectory(atPath: output, withIntermediateDirectories: true)
        let path = output + "/contact-sheet.png"
        try encoder.write(sheet, as: .png, to: path)
        encoder.end()

        say("\n" + ResultTable(tally).text)
        say(tally.firstSummary + " It took \(tally.first.milliseconds) ms.")
        say(tally.secondSummary + " It took \(tally.second.milliseconds) ms.")
        say("\nContact sheet: \(URL(filePath: path).standardizedFileURL.path)")
        for complaint in tally.complaints { CurrentProcess.writeToStandardError("imgdemo: \(complaint)\n") }
        if tally.complaints.isEmpty {
            say("Each URL was transferred once, and all processes saw the same pixels, before and after the restart.")
        }
        return tally.complaints.isEmpty ? 0 : 1
    }

    private func say(_ text: String) {
        CurrentProcess.writeToStandardOutput(text + "\n")
    }

    // MARK: Steps

    private func pictureFolder(_ encoder: PictureEncoder) throws -> String {
        if let images {
            guard CurrentProcess.exists(images + "/.") else { throw DemoFailure("there is no folder \(images)") }
            return URL(filePath: images).standardizedFileURL.path
        }
        say("No folder was given with IMAGES=…, so some pictures are drawn.")
        let folder = household.directory + "/images"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        try SamplePictures.write(to: folder, with: encoder)
        return folder
    }

    /// Starts a broker, lets a crowd ask it for everything, does `more` while both are there, and ends them.
    private func observe<Result>(
        _ setting: Setting, before: RunTally?, more: (RunTally) throws -> Result
    ) throws -> (RunTally, Result) {
        let broker = try BrokerProcess(
            setting.programs + "/imgbroker", socket: setting.socket, cache: setting.cache, household: household)
        let entriesBefore = try broker.stats()[.diskEntries]
        let crowd = try Crowd(
            processes, program: setting.ownProgram, socket: setting.socket, list: setting.list, household: household)
        let sizes = PictureSize.allCases
        let began = Instant.now
        let tallies = try crowd.ask(setting.wishes.count)
        let took = Instant.now.microseconds(since: began) / 1000
        try broker.waitUntilIdle()
        let requests = setting.paths.enumerated().map { index, path in
            setting.origin.requests(path).count - (before?.requestsToOrigin[index] ?? 0)
        }
        let tally = RunTally(
            wishes: setting.names.indices.map { picture in
                Dictionary(uniqueKeysWithValues: sizes.indices.map { (sizes[$0], tallies[picture * sizes.count + $0]) })
            }, requestsToOrigin: requests, processes: processes, stats: try broker.stats(),
            entriesBefore: entriesBefore, milliseconds: took)

        let maps = crowd.maps
        if maps.resident > 0 {
            say(
                "By the kernel's count the processes map \(Tally.megabytes(maps.resident)) of pixels, which take "
                    + "\(Tally.megabytes(maps.proportional)) of memory.")
        }
        say("\n$ imgbroker ctl stats\n")
        try runAndWait(setting.programs + "/imgbroker", ["ctl", "stats", "--socket", setting.socket])
        let result = try more(tally)
        try crowd.end()
        try broker.end()
        return (tally, result)
    }

    private func runAndWait(_ path: String, _ arguments: [String]) throws {
        let (own, control) = try UnixSocket.pair()
        let child = try household.start(path, arguments, control: control)
        guard household.waitForEnd(of: child, milliseconds: 10_000) else { throw DemoFailure("\(path) failed") }
        withExtendedLifetime(own) {}
    }

    /// Asks for the pictures once more, as one more client; they come from memory.
    private func contactSheet(_ tally: Tally, _ setting: Setting) throws -> Canvas {
        let broker = try ImageBroker(path: setting.socket)
        let tiles = try setting.paths.enumerated().flatMap { index, path in
            var frames: ContactSheet.Tile?
            var tile = ContactSheet.Tile(name: setting.names[index], remark: "no picture")
            if let example = tally.example(index) {
                let format = example.contentType.split(separator: "/").last.map { $0.uppercased() } ?? ""
                tile.remark = "\(format) \(example.originalWidth) × \(example.originalHeight)"
            }
            for size in PictureSize.allCases {
                if let failure = tally.first.wishes[index][size]?.failure {
                    tile.contents[size] = .failure(failure)
                    continue
                }
                let image = try broker.get(setting.origin.url(path), size.options)
                let bytes = image.withBytes { span in unsafe span.withUnsafeBytes { unsafe Array($0) } }
                let view = PixelView(bytes, width: image.reply.width, height: image.reply.height)
                tile.contents[size] = .picture(view)
                if size == .medium, image.reply.frameCount > 1 {
                    frames = try self.frames(of: setting.origin.url(path), setting.names[index], broker)
                }
                if size == .medium {
                    tile.remark += " → \(view.width) × \(view.height)"
                    let magnification = ContactSheet.magnification(of: view)
                    if magnification > 1 { tile.remark += ", shown ×\(magnification)" }
                }
            }
            return [tile] + (frames.map { [$0] } ?? [])
        }
        return ContactSheet.draw(
            tiles, title: "imgbroker", subtitles: [tally.firstSummary, tally.secondSummary])
    }

    /// A tile with all frames of an animation.
    private func frames(of url: String, _ name: String, _ broker: ImageBroker) throws -> ContactSheet.Tile? {
        var options = GetOptions()
        options.variant.frames = .all
        // How many there are is known by now, as the picture has been described.
        let count = try broker.get(url, PictureSize.medium.options).reply.frameCount
        let box = ContactSheet.frameBox(count)
        (options.variant.width, options.variant.height) = (box.width, box.height)
        let image = try broker.get(url, options)
        guard let timing = image.reply.timing, !timing.delaysMs.isEmpty else { return nil }
        let bytes = image.withBytes { span in unsafe span.withUnsafeBytes { unsafe Array($0) } }
        let step = bytes.count / timing.delaysMs.count
        let views = timing.delaysMs.indices.map { frame in
            PixelView(
                Array(bytes[frame * step..<(frame + 1) * step]), width: image.reply.width,
                height: image.reply.height)
        }
        let seconds = Double(timing.delaysMs.reduce(0, +)) / 1000
        let loops = timing.loops == 0 ? "for ever" : "\(timing.loops) times"
        let remark = "\(views.count) frames, \(seconds) s, \(loops)"
        return ContactSheet.Tile(name: name, remark: remark, contents: [.medium: .frames(views)])
    }

    private static func percentEncoded(_ name: String) -> String {
        let digits = Array("0123456789ABCDEF")
        return name.utf8.map { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                String(UnicodeScalar(byte))
            default: "%" + String(digits[Int(byte >> 4)]) + String(digits[Int(byte & 15)])
            }
        }.joined()
    }
}
