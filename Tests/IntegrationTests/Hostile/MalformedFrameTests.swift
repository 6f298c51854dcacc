/// Bytes that are not valid messages.
@Suite(.blocking, .timeLimit(.minutes(10))) struct MalformedFrameTests {
    /// The state of a connection after a malformed frame.
    private enum Fate {
        /// The broker sends `bad-frame` without an id and closes it.
        case closed
        /// The broker sends an error and keeps it open.
        case stays
        /// The broker waits for more bytes; the client closes it.
        case waits
    }

    private struct Malformed {
        var bytes: [UInt8]
        var fate: Fate
        var descriptors = 0
    }

    private static let cases: [Malformed] = {
        let closing = [
            "[1,2,3]", "[]", "\"text\"", "17", "null", "true", "{", "{}}", "{\"type\":\"stats\",\"id\":1", "{'a':1}",
            "{\"type\" \"stats\"}", "{\"a\":01}", "{\"a\":tru}", "{\"a\":\"\u{1}\"}", "{\"a\":\"\\x\"}", "\0\0\0",
            "{\"a\":1,}", "{\"a\":[1,]}", "{\"a\":1} x", " ", "{\"a\":\"\\ud800\"}x", "nope",
            String(repeating: "[", count: 100_000), String(repeating: "{\"a\":", count: 50_000),
        ]
        let staying = [
            "{}", #"{"type":"stats"}"#, #"{"type":"stats","id":-1}"#, #"{"type":"stats","id":1.5}"#,
            #"{"type":"stats","id":"1"}"#, #"{"type":"stats","id":9007199254740992}"#, #"{"type":"stats","id":null}"#,
            #"{"type":7,"id":1}"#, #"{"type":null,"id":1}"#, #"{"type":"steal","id":1}"#, #"{"type":"","id":1}"#,
            #"{"type":"get","id":1}"#, #"{"type":"get","id":1,"url":7}"#, #"{"type":"get","id":1,"url":{}}"#,
            #"{"type":"get","id":1,"url":"http://127.0.0.1/","variant":7}"#,
            #"{"type":"get","id":1,"url":"http://127.0.0.1/","headers":{"a":1}}"#,
            #"{"type":"cancel","id":1}"#, #"{"type":"cancel","id":1,"request":"1"}"#,
            #"{"type":"release","buffer":"x"}"#, #"{"type":"release","buffers":7}"#,
            #"{"type":"release","buffers":[0]}"#, #"{"type":"hello","id":1,"protocol":"1"}"#,
            #"{"type":"query","id":1}"#, #"{"type":"remove","id":1}"#, #"{"id":1}"#,
            #"{"type":"clear","id":1,"tier":"disc"}"#, #"{"type":"subscribe","id":1,"events":["everything"]}"#,
            #"{"type":"prefetch","id":1,"urls":["ftp://a/"]}"#, #"{"type":"failed","id":1,"action":"forgive"}"#,
            #"{"type":"store","id":1,"url":"http://127.0.0.1/"}"#,
            #"{"type":"store","id":1,"url":"http://127.0.0.1/","fds":1}"#,
        ]
        let stats = RawClient.frame(#"{"type":"stats","id":1}"#)
        let invalid: [UInt8] = [0xFF, 0xFE, 0x7B, 0x7D]
        return closing.map { Malformed(bytes: RawClient.frame($0), fate: .closed) }
            + staying.map { Malformed(bytes: RawClient.frame($0), fate: .stays) }
            + [0, 1 << 20 + 1, 1 << 24, 1 << 31, 0xFFFF_FFFF].map {
                Malformed(bytes: RawClient.header($0), fate: .closed)
            }
            + [
                Malformed(bytes: RawClient.header(4) + invalid, fate: .closed),
                Malformed(bytes: [0, 0], fate: .waits), Malformed(bytes: RawClient.header(100), fate: .waits),
                Malformed(bytes: Array(stats.dropLast()), fate: .waits),
                Malformed(bytes: RawClient.header(1 << 20) + [UInt8(ascii: "{")], fate: .waits),
                // Unexpected descriptors, and announced ones that are missing.
                Malformed(bytes: RawClient.frame(#"{"type":"steal","id":1}"#), fate: .stays, descriptors: 20),
                Malformed(bytes: [0, 0], fate: .waits, descriptors: 3),
                Malformed(bytes: RawClient.header(0), fate: .closed, descriptors: 3),
                Malformed(bytes: RawClient.frame(#"{"type":"steal","id":1,"fds":3}"#), fate: .stays),
                Malformed(
                    bytes: RawClient.frame(#"{"type":"store","id":1,"url":"http://127.0.0.1/","fds":1}"#), fate: .stays,
                    descriptors: 20),
                // Payloads: unexpected, too long, cut off.
                Malformed(
                    bytes: RawClient.frame(#"{"type":"steal","id":1,"payload":5}"#) + [0, 0, 0, 0, 0], fate: .stays),
                Malformed(bytes: RawClient.frame(#"{"type":"stats","id":1,"payload":40000000}"#), fate: .closed),
                Malformed(bytes: RawClient.frame(#"{"type":"stats","id":1,"payload":100}"#) + [1, 2], fate: .waits),
                Malformed(
                    bytes: RawClient.frame(#"{"type":"store","id":1,"url":"http://127.0.0.1/","payload":100}"#) + [
                        1, 2,
                    ],
                    fate: .waits),
            ]
    }()

    @Test func malformedFramesAreAnswered() throws {
        let setting = try Setting { png(tile($0.numberInPath)) }
        let good = try setting.client()
        _ = try good.load(setting.url("/0"))
        try setting.idle()
        let warm = try setting.broker.settledDescriptorsBesidesImages()
        let entries = try good.stats()[.memoryEntries]
        let workers = setting.broker.workers(.decode) + setting.broker.workers(.fetch)
        let spare = try (0..<20).map { _ in try WritableBuffer(name: "test").descriptor }

        var sent = 0
        // Many connections are open at once; each is checked some time after its frame was sent.
        var open: [(client: RawClient, fate: Fate)] = []
        while sent < 2000 {
            for malformed in Self.cases {
                let client = try setting.client()
                try client.send(malformed.bytes, descriptors: Array(spare.prefix(malformed.descriptors)))
                open.append((client, malformed.fate))
                sent += 1
                if sent % 10 == 0 {
                    let number = sent / 10
                    #expect(try good.picture(of: setting.url("/\(number)")) == tile(number))
                }
                if open.count > 40 { try check(open.removeFirst()) }
            }
        }
        for each in open { try check(each) }
        open = []

        for worker in workers { #expect(worker.isAlive) }
        let report = try setting.idle()
        #expect(report[.workerRestarts] == 0)
        let added = report[.memoryEntries] - entries
        #expect(added == 2 * (sent / 10))
        good.close()
        try setting.broker.wait(for: "the clients have disconnected") { $0[.clients] == 1 }
        #expect(try setting.broker.stats()[.leasedBytes] == 0)
        try setting.broker.waitForSettledDescriptors(warm - 1, images: report[.memoryEntries])
    }

    private func check(_ each: (client: RawClient, fate: Fate)) throws {
        switch each.fate {
        case .closed:
            let frames = try each.client.receiveUntilEnd()
            #expect((frames.count, frames.first?.error?.code, frames.first?.reply.id) == (1, .badFrame, nil))
        case .stays:
            let error = try #require(try each.client.next().error)
            #expect([.badRequest, .forbidden, .unsupportedScheme, .emptyImage].contains(error.code))
            #expect(try each.client.ask("stats").error == nil)
        case .waits: break
        }
        each.client.close()
    }

    /// A frame sent byte by byte, and many frames in one write.
    @Test func splitAndBatchedFrames() throws {
        let (setting, client) = try Setting(routes: ["/a": png(tile(1))]).withClient()
        for byte in RawClient.frame(RawClient.getText(900, setting.url("/a"))) { try client.send([byte]) }
        #expect(try client.picture(answering: 900) == tile(1))
        let heap = (1000..<3000).flatMap { RawClient.frame(#"{"type":"stats","id":\#($0)}"#) }
        // Answers are read meanwhile, because the broker stops reading from a client that does not receive.
        for start in stride(from: 0, to: heap.count, by: 8192) {
            try client.send(Array(heap[start..<min(start + 8192, heap.count)]))
            if start == 0 { _ = try client.answer(to: 1000) }
        }
        for id in 1001..<3000 { _ = try client.answer(to: id) }
    }

    @Test func unexpectedPayloadsAreSkipped() throws {
        let (setting, client) = try Setting(routes: ["/a": png(tile(1))]).withClient()
        // As frames, its bytes would be malformed.
        let payload = [UInt8](repeating: 0xFF, count: 300_000)
        try client.send(RawClient.frame(#"{"type":"stats","id":1,"payload":300000}"#) + payload)
        #expect(try client.next().reply.id == 1)
        #expect(try client.picture(of: setting.url("/a")) == tile(1))
        // Payload lengths beyond the limit, and no number.
        try client.send(RawClient.frame(#"{"type":"stats","id":77,"payload":"many"}"#))
        #expect(try client.answer(to: 77).error?.code == .badRequest)
        for number in ["33554433", "9007199254740991", "9007199254740993", "1e300"] {
            let other = try setting.client()
            try other.send(RawClient.frame(#"{"type":"stats","id":1,"payload":\#(number)}"#) + payload.prefix(64))
            let code = try other.next().error?.code
            #expect(code == .badFrame || code == .badRequest && Int(number).map { $0 >= 1 << 53 } != false, "\(number)")
        }
    }

    @Test func idsOfPendingRequestsAreRefused() throws {
        let (setting, client) = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }.withClient()
        let id = try client.get(setting.url("/a"))
        try client.send(RawClient.getText(id, setting.url("/b")))
        try client.send(#"{"type":"stats","id":\#(id)}"#)
        for _ in 0..<2 {
            let answer = try client.next()
            #expect((answer.reply.id, answer.error?.code) == (nil, .badRequest))
        }
        setting.origin.gate("/a").open()
        #expect(try client.picture(answering: id) == tile(1))
        try client.send(#"{"type":"stats","id":\#(id)}"#)
        #expect(try client.next().reply.id == id)
    }

    /// Bytes behind a malformed frame are ignored, and messages before it are answered.
    @Test func messagesBeforeAMalformedFrameAreAnswered() throws {
        let (setting, client) = try Setting(routes: ["/a": png(tile(1))]).withClient()
        _ = try client.load(setting.url("/a"))
        try client.send(
            RawClient.frame(#"{"type":"stats","id":500}"#) + RawClient.frame("[]")
                + RawClient.frame(#"{"type":"stats","id":501}"#))
        #expect(try client.receiveUntilEnd().map(\.reply.id) == [500, nil])
    }
}
