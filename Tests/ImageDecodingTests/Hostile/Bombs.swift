import TestSupport

// Small files that demand much memory or time: (nearly) valid as far as a decoder can tell before decoding.

/// Packs bits into bytes like codecs do.
struct BitWriter {
    private(set) var bytes: [UInt8] = []
    private var (held, count) = (0, 0)
    private let firstIsHighest: Bool
    private let stuffs: Bool

    /// Packs from the lowest bit of each byte, as in deflate and WebP.
    static var lowestFirst: BitWriter { BitWriter(firstIsHighest: false, stuffs: false) }
    /// Packs from the highest bit of each byte and stuffs a zero after each 0xFF, as in JPEG scans.
    static var jpeg: BitWriter { BitWriter(firstIsHighest: true, stuffs: true) }

    private init(firstIsHighest: Bool, stuffs: Bool) {
        self.firstIsHighest = firstIsHighest
        self.stuffs = stuffs
    }

    mutating func put(_ value: Int, _ bits: Int) {
        held = firstIsHighest ? held << bits | value : held | value << count
        count += bits
        while count >= 8 {
            let byte = UInt8(truncatingIfNeeded: firstIsHighest ? held >> (count - 8) : held)
            bytes.append(byte)
            if stuffs, byte == 0xFF { bytes.append(0) }
            count -= 8
            held = firstIsHighest ? held & (1 << count - 1) : held >> 8
        }
    }

    /// Pads the last byte with ones if `ones`, else zeros, and returns the bytes.
    mutating func finish(ones: Bool = false) -> [UInt8] {
        if count > 0 { put(ones ? 1 << (8 - count) - 1 : 0, 8 - count) }
        return bytes
    }
}

enum PNGBomb {
    /// An image whose filter types and samples are all 4, so that each row has the Paeth filter. With `claims`, only
    /// the header has this size.
    static func flat(
        _ width: Int, _ height: Int, _ kind: TestPNG.Kind, depth: Int, interlaced: Bool = false, claims: Bool = false,
        before chunks: [[UInt8]] = []
    ) -> [UInt8] {
        var png = TestPNG(width: 1, height: 1, kind: kind, depth: depth, interlaced: interlaced) { _, _ in
            [Int](repeating: 0, count: samples(kind))
        }
        png.header.replaceSubrange(0..<8, with: bigEndian(width) + bigEndian(height))
        if kind == .palette { png.setPalette([[UInt8]](repeating: [1, 2, 3], count: 1 << depth)) }
        png.before += chunks
        let passes =
            interlaced
            ? [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
            : [(0, 0, 1, 1)]
        let bytes = passes.reduce(0) { sum, pass in
            let (left, top, across, down) = pass
            let (columns, rows) = ((width - left + across - 1) / across, (height - top + down - 1) / down)
            return columns > 0 && rows > 0 ? sum + rows * (1 + (columns * samples(kind) * depth + 7) / 8) : sum
        }
        png.data = deflated(4, claims ? 100 : bytes)
        return png.file
    }

    private static func samples(_ kind: TestPNG.Kind) -> Int {
        switch kind {
        case .gray, .palette: 1
        case .grayAlpha: 2
        case .rgb: 3
        case .rgba: 4
        }
    }

    static func bigEndian(_ value: Int) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
    }

    /// Returns `count` times `byte` (below 144) as a zlib stream of a thousandth of that size (RFC 1951, section
    /// 3.2.6).
    static func deflated(_ byte: Int, _ count: Int) -> [UInt8] {
        var bits = BitWriter.lowestFirst
        // Huffman codes are stored with their highest bit first.
        func put(code: Int, _ length: Int) { for bit in (0..<length).reversed() { bits.put(code >> bit & 1, 1) } }
        bits.put(0b011, 3)
        put(code: 0x30 + byte, 8)
        let (runs, rest) = (count - 1).quotientAndRemainder(dividingBy: 258)
        // A length of 258 and a distance of 1.
        for _ in 0..<runs { bits.put(0b1010_0011, 13) }
        for _ in 0..<rest { put(code: 0x30 + byte, 8) }
        put(code: 0, 7)
        let (a, b) = ((1 + byte * count) % 65_521, (count + byte * (count * (count + 1) / 2 % 65_521)) % 65_521)
        return [0x78, 0x01] + bits.finish() + bigEndian(b << 16 | a)
    }
}

/// JPEG bombs: every block is flat, and one code stands for most of them.
enum JPEGBomb {
    /// A scan of these components.
    struct Scan {
        var components: [Int]
        /// The range of coefficients, and the bits of precision before and after.
        var first = 0
        var last = 63
        var high = 0
        var low = 0
        var data: [UInt8]
    }

    /// Returns a file with `scans` and the frame marker `frame` (0xC0 baseline, 0xC2 progressive, 0xC9 arithmetic).
    static func file(
        _ width: Int, _ height: Int, components: Int, frame: UInt8, scans: [Scan], restarts: Int = 0
    ) -> [UInt8] {
        var file: [UInt8] = [0xFF, 0xD8]
        file += segment(0xDB, [0] + [UInt8](repeating: 1, count: 64))
        let size = [height, width].flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] }
        file += segment(
            frame, [8] + size + [UInt8(components)] + (0..<components).flatMap { [UInt8($0 + 1), 0x11, 0] as [UInt8] })
        // DC: code 0 is no difference. AC: code 0 is the end of the block; code 10 ends a run of at least 2^14 blocks.
        file += segment(0xC4, [0x00, 1] + [UInt8](repeating: 0, count: 15) + [0])
        file += segment(0xC4, [0x10, 1, 1] + [UInt8](repeating: 0, count: 14) + [0x00, 0xE0])
        if restarts > 0 { file += segment(0xDD, [UInt8(restarts >> 8), UInt8(restarts & 255)]) }
        for scan in scans {
            let selectors = scan.components.flatMap { [UInt8($0 + 1), 0] as [UInt8] }
            let parameters = [UInt8(scan.first), UInt8(scan.last), UInt8(scan.high << 4 | scan.low)]
            file += segment(0xDA, [UInt8(scan.components.count)] + selectors + parameters) + scan.data
        }
        return file + [0xFF, 0xD9]
    }

    /// Returns a file with one scan of all components.
    static func oneScan(
        _ width: Int, _ height: Int, components: Int = 1, frame: UInt8 = 0xC0, _ data: [UInt8], restarts: Int = 0
    ) -> [UInt8] {
        file(
            width, height, components: components, frame: frame,
            scans: [Scan(components: Array(0..<components), data: data)], restarts: restarts)
    }

    private static func segment(_ marker: UInt8, _ payload: [UInt8]) -> [UInt8] {
        let length = payload.count + 2
        return [0xFF, marker, UInt8(length >> 8), UInt8(length & 255)] + payload
    }

    static func blocks(_ width: Int, _ height: Int) -> Int { (width + 7) / 8 * ((height + 7) / 8) }

    /// Returns the data of one scan with 2 bits for each block of all components.
    static func sequential(_ blocks: Int) -> [UInt8] { [UInt8](repeating: 0, count: blocks / 4 + 1) }

    /// Returns a progressive file: first a DC scan, then scans that refine coefficients that stay zero, `count` in
    /// total. If `isHidden`, the first scan contains an invalid marker where libjpeg expects a restart marker and
    /// continues.
    static func progressive(
        _ width: Int, _ height: Int, components: Int, scans count: Int, isHidden: Bool = false
    ) -> [UInt8] {
        let blocks = blocks(width, height)
        var bits = BitWriter.jpeg
        for _ in 0..<(blocks + 32_766) / 32_767 {
            bits.put(0b10, 2)
            bits.put((1 << 14) - 1, 14)
        }
        let data = bits.finish(ones: true)
        var scans = [
            Scan(
                components: Array(0..<components), last: 0,
                data: isHidden ? [0, 0xFF, 0x02, 0, 0] : [UInt8](repeating: 0, count: blocks * components / 8 + 1))
        ]
        for component in 0..<components { scans.append(Scan(components: [component], first: 1, low: 1, data: data)) }
        for index in 0..<count - scans.count {
            scans.append(Scan(components: [index % components], first: 1, high: 1, data: data))
        }
        return file(width, height, components: components, frame: 0xC2, scans: scans, restarts: isHidden ? 1 : 0)
    }
}

enum WebPBomb {
    /// A canvas with one frame of one pixel.
    static func canvas(_ width: Int, _ height: Int, frame file: [UInt8], frames: Int = 1) -> [UInt8] {
        let size = littleEndian(width - 1, 3) + littleEndian(height - 1, 3)
        let frame = chunk("ANMF", littleEndian(0, 6) + littleEndian(0, 6) + [1, 0, 0, 0] + file.dropFirst(12))
        var body = Array("WEBP".utf8) + chunk("VP8X", [0x12, 0, 0, 0] + size)
        body += chunk("ANIM", [0, 0, 0, 0, 0, 0])
        for _ in 0..<frames { body += frame }
        return chunk("RIFF", body)
    }

    /// A lossless image of one colour: a few bytes for any size.
    static func flat(_ width: Int, _ height: Int) -> [UInt8] {
        var bits = header(width, height)
        // No transform, no colour cache, no prefix code groups.
        bits.put(0b000, 3)
        for _ in 0..<5 { single(&bits) }
        return lossless(bits.finish())
    }

    /// A lossless image with up to 65,536 prefix code groups (the maximum), each with large tables: one for each block
    /// of 4 × 4 pixels.
    static func groups(side: Int = 1024, count: Int = 65_536) -> [UInt8] {
        var bits = header(side, side)
        // No transform; a colour cache of 2^11, for larger tables; prefix code groups for blocks of 4 × 4.
        for (value, count) in [(0, 1), (1, 1), (11, 4), (1, 1), (0, 3)] { bits.put(value, count) }
        // The entropy image with the group numbers, without a colour cache: 8 bits of green and red each.
        bits.put(0, 1)
        even(&bits, lengths: 8, symbols: 256)
        even(&bits, lengths: 8, symbols: 256)
        for _ in 0..<3 { single(&bits) }
        let blocks = side / 4 * (side / 4)
        let groups = min(blocks, count)
        for index in (0..<blocks).map({ $0 % groups }) {
            for byte in [index & 255, index >> 8 & 255] {
                for bit in (0..<8).reversed() { bits.put(byte >> bit & 1, 1) }
            }
        }
        for _ in 0..<groups {
            even(&bits, lengths: 11, symbols: 2048)
            for _ in 0..<3 { even(&bits, lengths: 8, symbols: 256) }
            even(&bits, lengths: 5, symbols: 32)
        }
        // Pixels: zeros are a green code of 11 bits and three codes of 8.
        let pixels = [UInt8](repeating: 0, count: side * side * 35 / 8 + 1)
        return lossless(bits.finish() + pixels)
    }

    private static func header(_ width: Int, _ height: Int) -> BitWriter {
        var bits = BitWriter.lowestFirst
        for (value, count) in [(0x2F, 8), (width - 1, 14), (height - 1, 14), (1, 1), (0, 3)] { bits.put(value, count) }
        return bits
    }

    /// Writes a prefix code with the only symbol 0, which takes no bits.
    private static func single(_ bits: inout BitWriter) { bits.put(0b0001, 4) }

    /// Writes a prefix code whose first `symbols` symbols have `lengths` bits each. The code of the lengths has one
    /// symbol of no bits.
    private static func even(_ bits: inout BitWriter, lengths: Int, symbols: Int) {
        let order = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
        let place = order.firstIndex(of: lengths)!
        bits.put(0, 1)
        bits.put(place + 1 - 4, 4)
        for index in 0...place { bits.put(index == place ? 1 : 0, 3) }
        // The number of symbols minus 2, in 12 bits.
        bits.put(1, 1)
        bits.put(5, 3)
        bits.put(symbols - 2, 12)
    }

    private static func lossless(_ data: [UInt8]) -> [UInt8] {
        chunk("RIFF", Array("WEBP".utf8) + chunk("VP8L", data))
    }

    static func chunk(_ name: String, _ payload: [UInt8]) -> [UInt8] {
        Array(name.utf8) + littleEndian(payload.count, 4) + payload + (payload.count % 2 == 1 ? [0] : [])
    }

    static func littleEndian(_ value: Int, _ bytes: Int) -> [UInt8] {
        (0..<bytes).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }
}
