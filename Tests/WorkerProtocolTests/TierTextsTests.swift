import CodingTestSupport
import IPCProtocol
import Testing

@testable import WorkerProtocol

/// The messages of a hit in the shared tier, which are read and written as text: as if they were read and written as JSON.
struct TierTextsTests {
    private let key = String(repeating: "0123456789abcdef", count: 4)

    private func text(_ message: some WorkerMessage) throws -> [UInt8] {
        Array(try message.encoded().dropFirst(Frame.headerLength))
    }

    /// Reads a lookup as a text of fixed form.
    private func read(_ text: some Sequence<UInt8>) -> TierOrder? {
        TierTexts.readFind(Array(text)[...]).map { .find(job: $0.job, key: $0.key, token: $0.token) }
    }

    @Test func `a lookup is read from its text`() throws {
        for job in [0, 7, 123_456_789, 999_999_999_999_999_999] {
            for token in [nil, "", "c0ffee-17", "~ {}:,"] {
                let order = TierOrder.find(job: job, key: key, token: token)
                #expect(read(try text(order)) == order)
            }
        }
    }

    @Test func `a lookup that is written in another way is left to the reader of JSON`() throws {
        let usual = String(decoding: try text(TierOrder.find(job: 12, key: key, token: "a-1")), as: UTF8.self)
        func with(_ part: String, _ other: String) -> String { usual.replacing(part, with: other) }
        let others = [
            with(":12", ": 12"), with("{", " {"), with("a-1", "\\u0061-1"), with("a-1", "ä"), with(":12", ":12.0"),
            with("find", "\\u0066ind"), with("}", ",\"more\":1}"), with("}", "} "),
        ]
        for other in others {
            #expect(read(other.utf8) == nil, "\(other)")
            guard case .find(12, key, _?) = try TierOrder(decoding: Array(other.utf8)[...]) else {
                Issue.record("\(other)")
                continue
            }
        }
        #expect(read(Array(usual.utf8) + [0, 1, 2]) == nil, "a frame with bytes")
    }

    /// What the text's reader accepts, the one of JSON reads as the same.
    @Test(arguments: 300..<304) func `damaged lookups are read as by JSON`(seed: UInt64) throws {
        var random = RandomSource(seed: seed)
        let usual = try text(TierOrder.find(job: 12, key: key, token: "a-1"))
        for _ in 0..<5000 {
            var text = usual
            for _ in 0..<Int.random(in: 1...2, using: &random) {
                let place = Int.random(in: text.indices, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: text[place] = UInt8.random(in: 0...255, using: &random)
                case 1: text.remove(at: place)
                default: text.insert("{}[]\",:\\09af".utf8.randomElement(using: &random)!, at: place)
                }
            }
            guard let order = read(text) else { continue }
            #expect(try order == TierOrder(decoding: text[...]), "\(String(decoding: text, as: UTF8.self))")
        }
    }

    @Test func `a slice of a frame is read`() throws {
        let text = try text(TierOrder.find(job: 1, key: key, token: nil))
        #expect(TierTexts.readFind(([1, 2, 3] + text + [4])[3..<3 + text.count])?.key == key)
    }

    @Test(arguments: [0, 9, 10, 1_234_567_890, Int.max])
    func `a small record is written as any message with bytes`(job: Int) throws {
        let content = [UInt8](0...255)
        var frames: [UInt8] = [1, 2, 3]
        unsafe content.withUnsafeBytes {
            unsafe TierTexts.appendFound(job: job, metadata: 100, content: $0, to: &frames)
        }
        #expect(frames == [1, 2, 3] + (try TierReport.foundSmall(job: job, metadata: 100).encoded(with: content)))
    }
}
