import CodingTestSupport
import IPCProtocol
import Testing

/// Random bytes are refused by all readers of messages.
struct RandomBytesTests {
    @Test(arguments: 200..<204)
    func noBytesAtAllCrashTheReader(seed: UInt64) {
        for text in randomTexts(seed: seed, behind: "{\"a\":") {
            if case .message? = try? ClientMessage.decode(text[...]).0 { Issue.record("accepted: \(text)") }
            #expect(throws: BadReply.self) { try Reply(decoding: text[...]) }
        }
    }
}
