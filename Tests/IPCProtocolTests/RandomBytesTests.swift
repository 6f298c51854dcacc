import CodingTestSupport
import IPCProtocol
import SystemValues
import Testing

/// Random bytes are refused by all readers of messages.
struct RandomBytesTests {
    @Test(arguments: 200..<204)
    func noBytesAtAllCrashTheReader(seed: UInt64) {
        var random = SplitMix64(state: seed)
        for _ in 0..<2000 {
            let count = Int.random(in: 0...40, using: &random)
            var text = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            if random.once(in: 2) { text = Array("{\"a\":".utf8) + text }
            if case .message? = try? ClientMessage.decode(text[...]).0 { Issue.record("accepted: \(text)") }
            #expect(throws: BadReply.self) { try Reply(decoding: text[...]) }
        }
    }
}
