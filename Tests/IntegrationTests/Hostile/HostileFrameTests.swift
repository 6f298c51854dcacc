/// A broker that gets generated frames of one user, malformed in many ways, while another client loads an image.
private final class MalformedFrames {
    /// The id of a round's last message, which no other message has.
    private static let lastID = 1 << 53 - 1

    /// The outcome that the protocol requires for some bytes: the number of terminal frames, and whether the connection
    /// closes.
    private struct Fate {
        var answers = 0
        var isClosed = false
        /// Whether the frame is incomplete.
        var waits = false

        init(of bytes: [UInt8]) {
            var decoder = FrameDecoder()
            decoder.append(bytes)
            do {
                while let text = try decoder.next() {
                    let (decoded, envelope) = try ClientMessage.decode(text)
                    if envelope.payload > 32 << 20 {
                        answers += 1
                        isClosed = true
                        return
                    }
                    decoder.skipPayload(envelope.payload)
                    if case .message(.store) = decoded, envelope.payload > 0, decoder.isInsideFrame {
                        // The answer follows the complete payload.
                        break
                    }
                    if case .message(let message) = decoded, message.id == nil { continue }
                    answers += 1
                }
                waits = decoder.isInsideFrame
            } catch {
                answers += 1
                isClosed = true
            }
        }
    }

    // MARK: The generator

    private struct Generator {
        var random: SplitMix64
        let samples: [String]
        let descriptors: [FileDescriptor]
        var lastID = 0

        mutating func number(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &random) }

        mutating func one<Element>(of elements: [Element]) -> Element { elements.randomElement(using: &random)! }

        mutating func message() -> String {
            lastID += 1
            let id = lastID
            return one(of: samples).replacing(#/"id":\d+/#) { _ in "\"id\":\(id)" }
        }

        /// JSON values that are rarely valid.
        mutating func value() -> String {
            one(of: [
                "null", "true", "[]", "{}", "\"\"", "-1", "0", "1.5", "1e400", "-0", "9007199254740993",
                "99999999999999999999999999", "1e-400", "\"\\ud800\"", "\"\\u0000\"", "[[[[[]]]]]",
                "{\"a\":{\"b\":[]}}",
                "\"" + String(repeating: "x", count: number(1...20_000)) + "\"",
                String(repeating: "[", count: number(1...5000)),
                "[" + String(repeating: "0,", count: number(1...3000)) + "0]",
            ])
        }

        /// The bytes of a frame, and descriptors to send with it.
        mutating func next() -> (bytes: [UInt8], descriptors: [FileDescriptor]) {
            let text = message()
            var bytes = Array(text.utf8)
            var length: Int?
            var behind: [UInt8] = []
            var given: [FileDescriptor] = []
            switch number(0...17) {
            case 0:
                for _ in 0..<number(1...8) { bytes[number(0...bytes.count - 1)] ^= 1 << UInt8(number(0...7)) }
            case 1: bytes.removeLast(number(1...bytes.count - 1))
            case 2:
                length = one(of: [0, bytes.count - number(1...4), bytes.count + number(1...4), 1 << 20 + 1, 1 << 31])
            case 3:
                let at = number(0...bytes.count)
                bytes.insert(
                    contentsOf: Array(
                        String(repeating: one(of: ["[", "{\"a\":", "\""]), count: number(1...5000)).utf8), at: at)
            case 4: bytes = Array(member("x", value()).utf8)
            case 5:
                // Another value for an existing member.
                let names = [
                    "id", "url", "type", "urls", "variant", "headers", "fds", "payload", "tier", "events", "request",
                ]
                bytes = Array(replaced(text, one(of: names), value()).utf8)
            case 6: bytes = Array(member(one(of: ["id", "type", "url", "fds", "payload"]), value()).utf8)
            case 7:
                let at = number(0...bytes.count)
                bytes.insert(
                    contentsOf: one(of: [[0xFF], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF5, 0x80, 0x80, 0x80], [0]]),
                    at: at)
            case 8:
                bytes = Array(
                    replaced(text, "type", "\"\(one(of: ["steal", "Get", "", "get\\u0000", "hello "]))\"").utf8)
            case 9: bytes = Array(member("fds", "\(number(1...253))").utf8)
            case 10:
                bytes = Array(member("fds", "\(number(0...3))").utf8)
                given = Array(descriptors.prefix(one(of: [1, 2, 10, 253])))
            case 11:
                let size = one(of: [1, 10, 5000])
                bytes = Array(member("payload", "\(size)").utf8)
                behind = [UInt8](repeating: UInt8(number(0...255)), count: one(of: [size, size, size - 1]))
            case 12: bytes = Array(member("payload", one(of: ["33554433", "9007199254740991", "-1", "1e3"])).utf8)
            case 13: bytes = (0..<number(1...300)).map { _ in UInt8(number(0...255)) }
            case 14: bytes = Array(text.dropFirst(number(1...text.count - 1)).utf8)
            case 15:
                let other = Array(message().utf8)
                bytes = Array(bytes.prefix(number(1...bytes.count))) + other.suffix(number(1...other.count))
            case 16: given = Array(descriptors.prefix(number(1...5)))
            default: bytes += Array(message().utf8)
            }
            return (RawClient.header(length ?? bytes.count) + bytes + behind, given)
        }

        /// A message with one more member, first or last.
        private mutating func member(_ name: String, _ value: String) -> String {
            let text = message()
            return number(0...1) == 0
                ? "{\"\(name)\":\(value)," + text.dropFirst() : text.dropLast() + ",\"\(name)\":\(value)}"
        }

        private func replaced(_ text: String, _ name: String, _ value: String) -> String {
            guard let start = text.range(of: "\"\(name)\":") else { return text }
            let rest = text[start.upperBound...]
            let end = rest.firstIndex { ",}".contains($0) } ?? rest.endIndex
            return text[..<start.upperBound] + value + text[end...]
        }
    }

    private static func samples(_ url: String) throws -> [String] {
        let folder = BuiltProducts.package + "/Tests/IPCProtocolTests/Golden"
        return try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasPrefix("client-") }.sorted()
            .map { name in
                let text = try String(contentsOfFile: folder + "/" + name, encoding: .utf8).dropLast()
                return text.replacingOccurrences(of: "https://example.org/a%20picture.jpg?size=large", with: url)
            }
    }

    // MARK: Sending

    private static let url = "http://pictures.test/a.png"

    let broker: TestBroker
    let good: RawClient
    /// The milliseconds of each load of the other client.
    private(set) var latencies: [Int] = []
    private let origin: TestOrigin
    private let picture: TestPicture
    private var generator: Generator

    init() throws {
        origin = try TestOrigin { png(tile($0.path.utf8.count % 50)) }
        // A proxy, so that no damaged host name is looked up.
        broker = try TestBroker(["--proxy", origin.url("")])
        good = try RawClient(broker.socketPath)
        picture = try good.picture(of: Self.url)
        let file = try WritableBuffer(name: "test").descriptor
        generator = Generator(
            random: SplitMix64(state: 20_261_121), samples: try Self.samples(Self.url),
            descriptors: (0..<253).map { _ in file })
    }

    /// Sends `count` frames. After each 20 of them the other client loads its image, and so does that of `undisturbed`.
    func send(_ count: Int, beside undisturbed: UndisturbedBroker? = nil) throws {
        var sent = 0
        while sent < count {
            let client = try broker.client(as: 20_009)
            var isOpen = true
            for _ in 0..<20 where isOpen {
                let (bytes, descriptors) = generator.next()
                isOpen = try expect(client, bytes, descriptors)
                sent += 1
                if sent % 20 == 0 {
                    var again: TestPicture?
                    try undisturbed?.load()
                    latencies.append(try milliseconds { again = try good.picture(of: Self.url) })
                    #expect(again == picture)
                }
            }
            client.close()
        }
    }

    /// Sends a malformed frame and a valid one behind it, and checks the answers to both. Returns whether the
    /// connection stays open.
    private func expect(_ client: RawClient, _ bytes: [UInt8], _ descriptors: [FileDescriptor]) throws -> Bool {
        let fate = Fate(of: bytes)
        let last = RawClient.frame(#"{"type":"hello","protocol":1,"id":\#(Self.lastID)}"#)
        func show() -> Comment { "\(String(decoding: bytes.prefix(300), as: UTF8.self)), \(fate)" }
        if fate.waits {
            // A frame behind it would be read as its rest.
            try client.send(bytes, descriptors: descriptors)
            for _ in 0..<fate.answers { _ = try terminal(client) }
            return false
        }
        do {
            try client.send(bytes + last, descriptors: descriptors)
        } catch let error as SystemError {
            // The broker may close the connection before all is sent.
            #expect(error.code == SystemError.brokenPipe && fate.isClosed, show())
        }
        if fate.isClosed {
            let frames = try client.receiveUntilEnd().filter(\.reply.isTerminal)
            #expect(frames.last?.error?.code == .badFrame, show())
            #expect(frames.last?.reply.id == nil, show())
            return false
        }
        var (answers, isLast) = (0, false)
        while answers < fate.answers || !isLast {
            let incoming = try terminal(client)
            if incoming.reply.id == Self.lastID, !isLast { isLast = true } else { answers += 1 }
        }
        #expect(answers == fate.answers, show())
        return true
    }

    private func terminal(_ client: RawClient) throws -> RawClient.Incoming {
        while true {
            let incoming = try client.next()
            if incoming.reply.isTerminal { return incoming }
        }
    }
}

/// Malformed frames take nothing from other clients.
@Suite(.blocking, .timeLimit(.minutes(10))) struct HostileFrameTests {
    private static let frames = 10_000
    private static let tolerance = 8 << 20

    @Test(.enabled("another user can be had") { geteuid() == 0 }) func malformedFramesDoNotDisturbOthers() throws {
        let attack = try MalformedFrames()
        let (broker, good) = (attack.broker, attack.good)
        func settle() throws -> StatsReport {
            try broker.wait(for: "the clients have disconnected") { $0[.clients] == 2 }
            _ = try good.ask("clear", #""tier":"all""#)
            _ = try good.ask("failed", #""action":"clear""#)
            return try broker.waitUntilIdle()
        }
        try attack.send(Self.frames / 10)
        _ = try settle()
        let (warm, memory) = (try broker.settledDescriptors(), broker.status.residentBytes)
        let workers = broker.workers(.decode) + broker.workers(.fetch)
        try attack.send(Self.frames - Self.frames / 10)
        let report = try settle()
        try broker.waitForSettledDescriptors(warm)
        // The good client holds a lease of the cleared image.
        report.expectNone(.reservedBytes, .evictedLeasedBytes, .memoryEntries)
        #expect(report.restartsBesidesSlow == 0, "\(report.lastDeaths)")
        #expect(workers.count { !$0.isAlive } <= report[.workerRestarts])
        #expect(broker.status.residentBytes - memory < Self.tolerance)
        #expect(try broker.stop() == .status(0))
    }
}

/// The time in which a client is served beside malformed frames.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct HostileFrameTimingTests {
    private static let frames = 1000

    @Test(.enabled("another user can be had") { geteuid() == 0 }) func malformedFramesDoNotDelayOthers() throws {
        let (attack, undisturbed) = (try MalformedFrames(), try UndisturbedBroker())
        try attack.send(Self.frames, beside: undisturbed)
        let latencies = attack.latencies.sorted()
        let limit = 5000 + 10 * undisturbed.slowest
        #expect(latencies[latencies.count * 99 / 100] < limit, "\(latencies.suffix(10))")
    }
}
