import IPCProtocol
import JSONCoding
import Testing

struct FrameTests {
    @Test func aFrameBeginsWithItsLength() throws {
        for length in [0, 1, 200, 70_000] {
            let frame = try Frame.encode { $0.constant("a", String(repeating: "x", count: length)) }
            let announced = frame.prefix(4).reduce(0) { $0 << 8 | Int($1) }
            #expect(announced == frame.count - 4)
            #expect(announced == length + 8)
        }
    }
}
