import Foundation
import IPCProtocol
import IPCTransport
import ImageBrokerClient
import LinuxSystem
import LocalOrigin

/// The whole demonstration: a broker, an origin, and processes that all want the same.
struct Demonstration {
    private static let extensions: Set<String> = ["jpg", "jpeg", "png", "webp"]
    private static let brokerPatience = 10_000

    /// The folder with the pictures; nil for some drawn here.
    let images: String?
    /// The folder for the contact sheet.
    let output: String
    /// How many processes ask.
    let processes: Int
    let household: Household

    /// Shows everything and returns the exit status: 0 when each URL was transferred once and all processes agree.
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
        let paths = names.map { "/" + Self.percentEncoded($0) }
        let socket = household.directory + "/imgbroker.sock"
        let (broker, end) = try startBroker(programs + "/imgbroker", socket: socket)
        defer { withExtendedLifetime(end) {} }
        say(
            "A broker with 4 decode workers listens, an origin serves \(names.count) images, \(processes) processes ask."
        )

        let began = Instant.now
        let clients = try startClients(own, socket: socket, urls: paths.map { origin.url($0) })
        var tallies = names.map { PictureTally(name: $0) }
        for client in clients { try collect(from: client, into: &tallies) }
        let took = Instant.now.microseconds(since: began)
        for (index, path) in paths.enumerated() { tallies[index].downloads = origin.requests(path).count }
        let tally = Tally(pictures: tallies, processes: processes)

        say("\n" + tally.table)
        say(tally.summary + " It took \(took / 1000) ms.")
        var maps = MemoryMaps()
        for client in clients { maps.add(client.process.pid) }
        if maps.resident > 0 {
            say(
                "By the kernel's count the processes map \(Tally.megabytes(maps.resident)) of these pixels, which take "
                    + "\(Tally.megabytes(maps.proportional)) of memory.")
        }
        say("\n$ imgbroker ctl stats\n")
        try runAndWait(programs + "/imgbroker", ["ctl", "stats", "--socket", socket])

        let sheet = try contactSheet(tally, urls: paths.map { origin.url($0) }, socket: socket)
        try FileManager.default.createDirectory(atPath: output, withIntermediateDirectories: true)
        let path = output + "/contact-sheet.png"
        try encoder.write(sheet, as: .png, to: path)
        encoder.end()

        for client in clients { try client.channel.sendMessage(ClientOrder.end) }
        for client in clients where !household.waitForEnd(of: client.process, milliseconds: 5000) {
            throw DemoFailure("a client process did not end well")
        }
        broker.send(Signals.terminate)
        guard household.waitForEnd(of: broker, milliseconds: 7000) else {
            throw DemoFailure("the broker did not end well")
        }
        if CurrentProcess.exists(socket) { throw DemoFailure("the broker left its socket behind") }

        say("\nContact sheet: \(URL(filePath: path).standardizedFileURL.path)")
        for complaint in tally.complaints { CurrentProcess.writeToStandardError("imgdemo: \(complaint)\n") }
        if tally.complaints.isEmpty { say("Each URL was transferred once, and all processes saw the same pixels.") }
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

    /// Starts a broker, and waits until it answers. The end of a socket pair goes with it, as every child has one.
    private func startBroker(_ path: String, socket: String) throws -> (ChildProcess, FileDescriptor) {
        let (own, control) = try UnixSocket.pair()
        let arguments = [
            "--workers", "4", "--socket", socket, "--allow-address", "127.0.0.0/8", "--memory-limit", "1G",
            "--log-level", "warning",
        ]
        let broker = try household.start(path, arguments, control: control)
        let deadline = Instant.now.adding(milliseconds: Self.brokerPatience)
        while Instant.now < deadline {
            if (try? ImageBroker(path: socket)) != nil { return (broker, own) }
            if broker.waitForExit(milliseconds: 20) != nil { throw DemoFailure("the broker ended at once") }
        }
        throw DemoFailure("the broker does not answer")
    }

    private struct Client {
        let process: ChildProcess
        let channel: FrameChannel
    }

    /// Starts the client processes, and lets them go all at once when each is connected.
    private func startClients(_ own: String, socket: String, urls: [String]) throws -> [Client] {
        let list = household.directory + "/urls"
        try urls.joined(separator: "\n").write(toFile: list, atomically: true, encoding: .utf8)
        let clients = try (0..<processes).map { _ in
            let (end, control) = try UnixSocket.pair()
            let process = try household.start(own, ["--client-of", socket, "--list", list], control: control)
            return Client(process: process, channel: FrameChannel(socket: end))
        }
        for client in clients {
            guard try client.channel.receiveMessage(ClientReport.self)?.0 == .ready else {
                throw DemoFailure("a client process did not start well")
            }
        }
        for client in clients { try client.channel.sendMessage(ClientOrder.start) }
        return clients
    }

    private func collect(from client: Client, into tallies: inout [PictureTally]) throws {
        while let (report, _) = try client.channel.receiveMessage(ClientReport.self) {
            switch report {
            case .ready: continue
            case .result(let result):
                guard tallies.indices.contains(result.index) else { throw DemoFailure("a client made up a picture") }
                tallies[result.index].results.append(result)
            case .done: return
            }
        }
        throw DemoFailure("a client process ended early")
    }

    private func runAndWait(_ path: String, _ arguments: [String]) throws {
        let (own, control) = try UnixSocket.pair()
        let child = try household.start(path, arguments, control: control)
        guard household.waitForEnd(of: child, milliseconds: 10_000) else { throw DemoFailure("\(path) failed") }
        withExtendedLifetime(own) {}
    }

    /// Asks for the pictures once more, as one more client; they come from memory.
    private func contactSheet(_ tally: Tally, urls: [String], socket: String) throws -> Canvas {
        let broker = try ImageBroker(path: socket)
        let tiles = try zip(tally.pictures, urls).map { picture, url in
            if let failure = picture.failure {
                return ContactSheet.Tile(name: picture.name, remark: "no picture", content: .failure(failure))
            }
            let image = try broker.get(url)
            let bytes = image.withBytes { span in unsafe span.withUnsafeBytes { unsafe Array($0) } }
            let room = ContactSheet.room
            let thumbnail = Thumbnail(
                bytes, width: image.description.width, height: image.description.height, maxWidth: room.width,
                maxHeight: room.height)
            var remark = "\(picture.format) \(picture.size)"
            if thumbnail.magnification > 1 { remark += ", shown ×\(thumbnail.magnification)" }
            if image.description.frameCount > 1 { remark += ", 1 of \(image.description.frameCount)" }
            return ContactSheet.Tile(name: picture.name, remark: remark, content: .picture(thumbnail))
        }
        return ContactSheet.draw(tiles, title: "imgbroker", subtitle: tally.summary)
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
