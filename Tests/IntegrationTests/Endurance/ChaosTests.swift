import Digests

/// Workers of every kind are killed continually while clients send requests of all kinds: answers are late, and never
/// wrong.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ChaosTests {
    private static let seconds = 60
    private static let killEveryMs = 100
    private static let leastKills = 300
    private static let leastAnswers = 1000
    private static let pictures = 120
    private static let connections = 10
    private static let pendingAtOnce = 8

    private static let variants = [
        "", #","variant":{"pixelFormat":"bgra8"}"#, #","variant":{"width":32}"#,
        #","variant":{"width":24,"height":24,"fit":"cover"}"#, #","as":"original""#,
    ]
    private static let modes = ["default", "default", "default", "default", "no-cache", "reload", "no-store"]
    private static let deliveries = ["fd", "fd", "inline"]

    private struct Wish: Hashable {
        let number: Int
        let variant: Int
    }

    private final class Guest {
        let client: RawClient
        var wishes: [Int: Wish] = [:]
        init(_ client: RawClient, mapsSegments: Bool) throws {
            self.client = client
            if mapsSegments { try client.mapSegments() }
        }
    }

    /// Noise, so that the file is large enough for kills during its transfer.
    private static func picture(_ number: Int) -> TestPicture { noise(number, width: 120, height: 90) }

    private func ask(_ wish: Wish, _ guest: Guest, _ setting: DiskSetting, _ random: inout SplitMix64) throws {
        let members =
            #""cache":"\#(Self.modes.randomElement(using: &random)!)","delivery":"\#(Self.deliveries.randomElement(using: &random)!)""#
            + Self.variants[wish.variant]
        guest.wishes[try guest.client.get(setting.url(wish.number), members)] = wish
    }

    /// The digest of an answer's pixels or encoded bytes; nil where it has no image.
    private func digest(_ incoming: RawClient.Incoming, _ guest: Guest) throws -> String? {
        guard case .image(_, let image) = incoming.reply else { return nil }
        defer { if let buffer = image.buffer { try? guest.client.release([buffer]) } }
        return SHA256.hexadecimalDigest(of: try guest.client.bytes(of: incoming))
    }

    @Test func killedWorkersCauseNoWrongAnswer() throws {
        let setting = try DiskSetting(["--memory-limit", "2M"]) { request in
            guard let number = Int(request.path.dropFirst()) else { return .status(404) }
            let control = ["max-age=600", "max-age=0", "no-cache"][number % 3]
            let answer = LocalOrigin.Response.resource(
                Self.picture(number).png, etag: "\"\(number)\"", cacheControl: control, contentType: "image/png",
                for: request)
            return answer.with { ($0.pieceBytes, $0.pauseMs) = (8000, number % 4 == 0 ? 20 : 0) }
        }
        var random = SplitMix64(state: 5)
        let first = try Guest(setting.client, mapsSegments: false)
        var expected: [Wish: String] = [:]
        for number in 0..<Self.pictures {
            for variant in Self.variants.indices {
                let wish = Wish(number: number, variant: variant)
                let incoming = try first.client.load(setting.url(number), #""x":0"# + Self.variants[variant])
                if variant == 0 { #expect(try first.client.picture(incoming) == Self.picture(number)) }
                expected[wish] = try digest(incoming, first)
            }
        }
        #expect(expected.count == Self.pictures * Self.variants.count)
        func settle() throws -> StatsReport {
            _ = try first.client.ask("clear", #""tier":"all""#)
            try setting.broker.wait(for: "the other clients have disconnected") {
                $0[.clients] == 2 && $0[.leasedBytes] == 0
            }
            return try setting.broker.waitUntilIdle()
        }
        _ = try settle()
        let descriptors = try setting.broker.settledDescriptors()
        let before = try setting.broker.stats()

        func newGuest(_ number: Int) throws -> Guest {
            try Guest(RawClient(setting.broker.socketPath), mapsSegments: number % 2 == 0)
        }
        var guests = try (0..<Self.connections).map(newGuest)
        var (killed, answered, wrong): ([TestBroker.Worker: Int], Int, Int) = ([:], 0, 0)
        var failures: [String: Int] = [:]
        let end = Deadline(seconds: Double(Self.seconds))
        var nextKill = Instant.now
        func take(_ incoming: RawClient.Incoming, _ guest: Guest) throws {
            guard incoming.reply.isTerminal, let id = incoming.reply.id, let wish = guest.wishes.removeValue(forKey: id)
            else { return }
            answered += 1
            if let error = incoming.error {
                failures["\(error.code): \(error.message)", default: 0] += 1
            } else if try digest(incoming, guest) != expected[wish] {
                wrong += 1
            }
        }
        // On a busy machine longer, until the least numbers are reached.
        while !end.isPast || killed.values.reduce(0, +) <= Self.leastKills || answered <= Self.leastAnswers {
            for (number, guest) in guests.enumerated() {
                // A client keeps all descriptors that it has received.
                let isFull = guest.client.receivedBuffers > 500
                if isFull, guest.wishes.isEmpty { guests[number] = try newGuest(number) }
                while !isFull, guest.wishes.count < Self.pendingAtOnce {
                    let wish = Wish(
                        number: Int.random(in: 0..<Self.pictures, using: &random),
                        variant: Int.random(in: 0..<Self.variants.count, using: &random))
                    try ask(wish, guest, setting, &random)
                }
                while let incoming = try guest.client.nextIfThere() { try take(incoming, guest) }
            }
            guard nextKill <= .now else { continue }
            nextKill = .now.adding(milliseconds: Self.killEveryMs)
            // The disk tier has only one process, so it is killed less often.
            let kind: TestBroker.Worker =
                Int.random(in: 0..<20, using: &random) == 0 ? .cache : Bool.random(using: &random) ? .fetch : .decode
            if let victim = setting.broker.workers(kind).randomElement(using: &random) {
                setting.broker.signal(victim, SIGKILL)
                killed[kind, default: 0] += 1
            }
        }
        for guest in guests {
            while !guest.wishes.isEmpty { try take(try guest.client.next(within: 60), guest) }
            guest.client.close()
        }
        guests = []
        #expect(wrong == 0)
        #expect(failures.isEmpty, "\(failures)")
        #expect(killed.values.reduce(0, +) > Self.leastKills, "\(killed)")
        #expect(answered > Self.leastAnswers)

        let report = try settle()
        #expect((report.ended, report[.failed]) == (report[.requests], before[.failed]))
        report.expectNone(
            .queued, .running, .reservedBytes, .leasedBytes, .evictedLeasedBytes, .memoryEntries, .memoryBytes)
        try setting.broker.waitForSettledDescriptors(descriptors)
        try setting.broker.allChildren()
        print("chaos: \(killed) killed, \(answered) answered")
        #expect(try setting.broker.stop() == .status(0))
    }
}
