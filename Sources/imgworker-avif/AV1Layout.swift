/// The depth and subsampling of decoded frames, which decide their memory.
struct AV1Layout: Equatable {
    /// The bytes of a sample: 2 for more than 8 bits.
    private(set) var sampleBytes = 1
    /// The samples of both chroma planes for four pixels.
    private(set) var chromaOfFour = 0

    /// The least memory: 8 bits without chroma.
    init() {}

    /// The bytes up to the colour description, for 32 operating points of at most 89 bits.
    static let longestHeader = 512

    /// Reads the content of a sequence header (AV1 specification, section 5.5); nil if it ends early or is invalid, so
    /// that no decoder shows a frame of it.
    init?(sequenceHeader bytes: [UInt8]) {
        var reader = BitReader(bytes)
        let profile = reader.next(3)
        reader.skip(1)
        let isReduced = reader.flag()
        if isReduced { reader.skip(5) } else { reader.skipOperatingPoints() }
        let (widthBits, heightBits) = (reader.next(4) + 1, reader.next(4) + 1)
        reader.skip(widthBits + heightBits)
        if !isReduced, reader.flag() { reader.skip(4 + 3) }
        // The size of superblocks and the filters of prediction.
        reader.skip(3)
        if !isReduced { reader.skipTools() }
        // Super-resolution, cdef and restoration.
        reader.skip(3)
        let isDeep = reader.flag()
        let isDeepest = profile == 2 && isDeep && reader.flag()
        let isGray = profile != 1 && reader.flag()
        let code = reader.flag() ? reader.next(24) : 0
        sampleBytes = isDeep ? 2 : 1
        if isGray {
            chromaOfFour = 0
        } else if code == Self.sRGB {
            chromaOfFour = 8
        } else {
            reader.skip(1)
            switch profile {
            case 0: chromaOfFour = 2
            case 1: chromaOfFour = 8
            case 2 where !isDeepest: chromaOfFour = 4
            case 2: chromaOfFour = !reader.flag() ? 8 : reader.flag() ? 2 : 4
            default: return nil
            }
        }
        if reader.isExhausted { return nil }
    }

    /// The code points of sRGB without conversion: primaries 1, transfer 13, matrix 0.
    private static let sRGB = 1 << 16 | 13 << 8

    /// Takes the larger of both numbers.
    mutating func extend(to other: AV1Layout) {
        sampleBytes = max(sampleBytes, other.sampleBytes)
        chromaOfFour = max(chromaOfFour, other.chromaOfFour)
    }
}

/// Reads numbers of bits, the most significant first. Bits beyond the end are 0.
private struct BitReader {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isExhausted: Bool { position > 8 * bytes.count }

    mutating func skip(_ count: Int) { position += count }

    mutating func next(_ count: Int) -> Int {
        var value = 0
        for _ in 0..<count {
            let bit = position < 8 * bytes.count ? bytes[position / 8] >> (7 - UInt8(position % 8)) & 1 : 0
            value = value << 1 | Int(bit)
            position += 1
        }
        return value
    }

    mutating func flag() -> Bool { next(1) == 1 }

    /// Skips the timing and the operating points.
    mutating func skipOperatingPoints() {
        var delayBits: Int?
        if flag() {
            skip(64)
            if flag() {
                // A number in Exp-Golomb coding: as many zeros as bits follow its first 1.
                var zeros = 0
                while !isExhausted, !flag() { zeros += 1 }
                skip(zeros)
            }
            if flag() {
                delayBits = next(5) + 1
                skip(32 + 5 + 5)
            }
        }
        let hasDisplayDelay = flag()
        for _ in 0...next(5) {
            skip(12)
            if next(5) > 7 { skip(1) }
            if let delayBits, flag() { skip(2 * delayBits + 1) }
            if hasDisplayDelay, flag() { skip(4) }
        }
    }

    mutating func skipTools() {
        skip(4)
        let hasOrder = flag()
        if hasOrder { skip(2) }
        // 2 stands for a choice in each frame.
        let screenContent = flag() ? 2 : next(1)
        if screenContent > 0, !flag() { skip(1) }
        if hasOrder { skip(3) }
    }
}
