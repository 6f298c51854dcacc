import CodingTestSupport
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

/// Random bytes are refused by all readers of messages.
struct RandomBytesTests {
    @Test(arguments: 200..<204)
    func noBytesAtAllCrashTheReader(seed: UInt64) {
        for text in randomTexts(seed: seed, behind: "{\"\u{1}\0\0\0a") {
            #expect(throws: BadWorkerMessage.self) { try DecodeOrder.read(text[...]) }
            #expect(throws: BadWorkerMessage.self) { try FetchReport.read(text[...]) }
        }
    }

    /// A message that was changed or cut is read as some message or refused, and no byte outside it is read.
    @Test(arguments: 210..<214)
    func damagedMessagesDoNotCrashTheReader(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let frames = try GoldenWorkerTests.decodeReports.map { try $0.1.encoded() }
        for frame in frames {
            let whole = Array(frame.dropFirst(Frame.headerLength))
            for count in whole.indices {
                #expect(throws: BadWorkerMessage.self) { try DecodeReport.read(whole[..<count]) }
            }
            for _ in 0..<200 {
                var damaged = whole
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    damaged[Int.random(in: damaged.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
                }
                guard let (message, bytes) = try? DecodeReport.read(damaged[...]) else { continue }
                #expect(bytes == nil)
                #expect(try DecodeReport.read(message.encoded().dropFirst(Frame.headerLength)).message == message)
            }
        }
    }
}
