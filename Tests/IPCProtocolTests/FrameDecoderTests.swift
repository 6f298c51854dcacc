@testable import IPCProtocol

/// Frames and payloads are cut from the stream in the same way however it arrives.
struct FrameDecoderTests {
    private enum Piece {
        case frame([UInt8])
        case skipped(Int)
        case taken([UInt8])
    }

    private static func header(_ length: Int) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * $0)) }
    }

    private static func bytes(of pieces: [Piece]) -> [UInt8] {
        pieces.flatMap { piece in
            switch piece {
            case .frame(let text): header(text.count) + text
            case .skipped(let count): [UInt8](repeating: 0xFF, count: count)
            case .taken(let payload): payload
            }
        }
    }

    /// Pushes `chunks` and checks that `pieces` come out, one after the other, as early as they can.
    private static func check(_ pieces: [Piece], in chunks: [ArraySlice<UInt8>]) throws {
        var decoder = FrameDecoder()
        var rest = pieces[...]
        var taken: [UInt8] = []
        func advance() throws {
            while let piece = rest.first {
                switch piece {
                case .frame(let text):
                    guard let frame = try decoder.next() else { return }
                    #expect(Array(frame) == text)
                case .skipped(let count):
                    decoder.skipPayload(count)
                case .taken(let payload):
                    taken += decoder.takePayload(upTo: payload.count - taken.count)
                    guard taken.count == payload.count else { return }
                    #expect(taken == payload)
                    taken = []
                }
                rest = rest.dropFirst()
            }
        }
        for chunk in chunks {
            decoder.append(chunk)
            try advance()
        }
        #expect(rest.isEmpty)
        #expect(!decoder.isInsideFrame)
        #expect(try decoder.next() == nil)
    }

    private static let stream: [Piece] = [
        .frame([1]), .frame(Array(repeating: 2, count: 300)), .skipped(5), .frame([3, 3]), .skipped(0), .frame([4]),
        .taken([9, 8, 7, 6]), .taken([5]), .skipped(3), .frame([5, 5, 5]), .taken([]), .frame([6]), .skipped(7),
    ]

    @Test func inPushesOfEverySize() throws {
        let bytes = Self.bytes(of: Self.stream)
        for size in 1...bytes.count {
            let chunks = stride(from: 0, to: bytes.count, by: size).map { bytes[$0..<min($0 + size, bytes.count)] }
            try Self.check(Self.stream, in: chunks)
        }
    }

    @Test func splitInThreeAtEveryPairOfPlaces() throws {
        let pieces: [Piece] = [.frame([1, 2]), .skipped(3), .frame([3]), .taken([7, 7]), .frame([4, 5])]
        let bytes = Self.bytes(of: pieces)
        for first in 0...bytes.count {
            for second in first...bytes.count {
                try Self.check(pieces, in: [bytes[..<first], bytes[first..<second], bytes[second...]])
            }
        }
    }

    @Test(arguments: 0..<20)
    func randomStreamsInRandomPushes(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        var pieces: [Piece] = [.frame([0])]
        for _ in 0..<60 {
            let count = Int.random(in: 0...(random.once(in: 10) ? 100_000 : 40), using: &random)
            switch Int.random(in: 0..<4, using: &random) {
            case 0: pieces.append(.skipped(count))
            case 1: pieces.append(.taken((0..<count).map { UInt8(truncatingIfNeeded: $0) }))
            default: pieces.append(.frame((0...count).map { UInt8(truncatingIfNeeded: $0 &* 7) }))
            }
        }
        let bytes = Self.bytes(of: pieces)
        var chunks: [ArraySlice<UInt8>] = []
        var position = 0
        while position < bytes.count {
            let end = min(bytes.count, position + Int.random(in: 1...(random.once(in: 2) ? 9 : 70_000), using: &random))
            chunks.append(bytes[position..<end])
            position = end
        }
        try Self.check(pieces, in: chunks)
    }

    @Test func theLongestFrameIsTaken() throws {
        var decoder = FrameDecoder()
        let text = [UInt8](repeating: 0x20, count: Frame.maximumLength)
        decoder.append(Self.header(Frame.maximumLength))
        #expect(try decoder.next() == nil)
        #expect(decoder.isInsideFrame)
        decoder.append(text[1...])
        #expect(try decoder.next() == nil)
        decoder.append(text[..<1])
        #expect(try decoder.next()?.count == Frame.maximumLength)
        #expect(!decoder.isInsideFrame)
    }

    @Test(arguments: [0, 1 << 20 + 1, 1 << 24, 0x8000_0000, 0xFFFF_FFFF])
    func otherLengthsAreRefusedByTheirHeaderAlone(length: Int) throws {
        var decoder = FrameDecoder()
        decoder.append(Self.header(2) + [1, 2] + Self.header(length).dropLast())
        #expect(try decoder.next().map(Array.init) == [1, 2])
        #expect(try decoder.next() == nil)
        decoder.append(Self.header(length).suffix(1))
        #expect(throws: FrameDecoder.BadLength(length: length)) { try decoder.next() }
        // And again: there is no way on.
        decoder.append(Self.header(1) + [1])
        #expect(throws: FrameDecoder.BadLength(length: length)) { try decoder.next() }
    }

    @Test func isInsideFrameFromTheFirstByteOn() throws {
        var decoder = FrameDecoder()
        #expect(!decoder.isInsideFrame)
        decoder.append([0])
        #expect(decoder.isInsideFrame)
        decoder.append([0, 0, 1, 65])
        _ = try decoder.next()
        #expect(!decoder.isInsideFrame)
        decoder.skipPayload(2)
        #expect(decoder.isInsideFrame)
        decoder.append([1, 2])
        #expect(!decoder.isInsideFrame)
    }

    @Test func aHugePayloadIsSteppedOverWithoutBeingKept() throws {
        var decoder = FrameDecoder()
        decoder.append(Self.header(1) + [65])
        _ = try decoder.next()
        decoder.skipPayload(JSONReader.maximumInteger)
        let chunk = [UInt8](repeating: 0, count: 1 << 16)
        for _ in 0..<64 {
            decoder.append(chunk)
            #expect(try decoder.next() == nil)
        }
        #expect(decoder.isInsideFrame)
    }
}

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

struct RandomBytesTests {
    @Test(arguments: 200..<204)
    func noBytesAtAllCrashTheReader(seed: UInt64) {
        for text in randomTexts(seed: seed, behind: "{\"a\":") {
            if case .message? = try? ClientMessage.decode(text[...]).0 { Issue.record("accepted: \(text)") }
            #expect(throws: BadReply.self) { try Reply(decoding: text[...]) }
        }
    }
}
