import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Reads PBM, PGM and PPM (P1 to P6) and PAM (P7), as netpbm defines them.
struct PNMReader: RowReader {
    let geometry: PixelGeometry
    let hasAlpha: Bool

    /// Samples of a pixel: 1 or 3, and with alpha 2 or 4.
    private let samples: Int
    /// The largest value of a sample.
    private let most: Int
    private let isText, isBits: Bool
    /// The next sample of text, or the first byte of the rows.
    private var position: Int
    private(set) var failure = CODEC_TRUNCATED

    init(_ bytes: Span<UInt8>, isWhole: Bool) throws(WireError) {
        let truncated = WireError(CODEC_TRUNCATED, format: .pnm)
        guard bytes.count > 2 else { throw truncated }
        let kind = bytes[1] - 0x30
        var text = PNMText(position: 2)
        var fields = PAMFields()
        if kind == 7 {
            try fields.read(&text, bytes)
        } else {
            for field in [\PAMFields.width, \.height] { fields[keyPath: field] = try text.number(bytes) }
            fields.most = kind == 1 || kind == 4 ? 1 : try text.number(bytes)
            fields.samples = kind == 3 || kind == 6 ? 3 : 1
            // One white space ends the header.
            text.position += 1
        }
        geometry = try PixelGeometry(fields.width, fields.height, of: .pnm)
        guard 1...65_535 ~= fields.most else { throw WireError(CODEC_DAMAGED, format: .pnm) }
        guard 1...4 ~= fields.samples else { throw WireError(CODEC_UNSUPPORTED, format: .pnm) }
        (samples, most, position) = (fields.samples, fields.most, text.position)
        (isText, isBits, hasAlpha) = (kind <= 3, kind == 1 || kind == 4, samples % 2 == 0)
        let least = isText ? geometry.pixels * samples : rowBytes * geometry.height
        if isWhole, position > bytes.count || least > bytes.count - position { throw truncated }
    }

    private var sampleBytes: Int { most > 255 ? 2 : 1 }
    private var rowBytes: Int { isBits ? (geometry.width + 7) / 8 : geometry.width * samples * sampleBytes }

    mutating func read(_ row: Int, of bytes: Span<UInt8>, into pixels: inout MutableSpan<UInt32>) -> Int {
        isText ? readText(bytes, into: &pixels) : readBytes(bytes, from: position + row * rowBytes, into: &pixels)
    }

    private func readBytes(_ bytes: Span<UInt8>, from start: Int, into pixels: inout MutableSpan<UInt32>) -> Int {
        let available = max(0, min(rowBytes, bytes.count - start))
        if isBits {
            let count = min(geometry.width, available * 8)
            for x in 0..<count {
                pixels[x] = bytes[start + x / 8] << UInt8(x % 8) & 128 == 0 ? Self.white : RGBA.black
            }
            return count
        }
        let (size, count) = (sampleBytes, available / (samples * sampleBytes))
        for x in 0..<count {
            var values = SIMD4<Int>(repeating: 0)
            for sample in 0..<samples {
                let place = start + (x * samples + sample) * size
                values[sample] = size == 1 ? Int(bytes[place]) : Int(bytes[place]) << 8 | Int(bytes[place + 1])
            }
            pixels[x] = pixel(values)
        }
        return count
    }

    private mutating func readText(_ bytes: Span<UInt8>, into pixels: inout MutableSpan<UInt32>) -> Int {
        var text = PNMText(position: position)
        defer { position = text.position }
        for x in 0..<pixels.count {
            var values = SIMD4<Int>(repeating: 0)
            for sample in 0..<samples {
                guard let value = text.sample(bytes, isBit: isBits) else {
                    if text.position < bytes.count { failure = CODEC_DAMAGED }
                    return x
                }
                values[sample] = value
            }
            pixels[x] = isBits ? values[0] == 0 ? Self.white : RGBA.black : pixel(values)
        }
        return pixels.count
    }

    private static let white: UInt32 = .max

    private func pixel(_ values: SIMD4<Int>) -> UInt32 {
        let byte = { (value: Int) in
            most == 255 ? UInt8(min(value, most)) : UInt8((min(value, most) * 255 + most / 2) / most)
        }
        let (red, isGray) = (byte(values[0]), samples < 3)
        let alpha = hasAlpha ? byte(values[samples - 1]) : 255
        return RGBA.pixel(red, isGray ? red : byte(values[1]), isGray ? red : byte(values[2]), alpha)
    }
}

private struct PAMFields {
    var (width, height, samples, most) = (0, 0, 0, 0)

    /// Reads lines of a name and a value up to `ENDHDR`.
    mutating func read(_ text: inout PNMText, _ bytes: Span<UInt8>) throws(WireError) {
        while true {
            let name = try text.word(bytes)
            switch name {
            case "WIDTH": width = try text.number(bytes)
            case "HEIGHT": height = try text.number(bytes)
            case "DEPTH": samples = try text.number(bytes)
            case "MAXVAL": most = try text.number(bytes)
            default: break
            }
            text.skipLine(bytes)
            if name == "ENDHDR" { return }
        }
    }
}

/// Numbers in text. White space separates them, and `#` begins a comment.
private struct PNMText {
    var position: Int
    /// A number that no field may have.
    private static let tooLarge = 1 << 32

    /// Skips white space and comments; returns the next byte, nil at the end.
    private mutating func next(_ bytes: Span<UInt8>) -> UInt8? {
        while position < bytes.count {
            switch bytes[position] {
            case 0x23: skipLine(bytes)
            case 9...13, 32: position += 1
            case let byte: return byte
            }
        }
        return nil
    }

    mutating func skipLine(_ bytes: Span<UInt8>) {
        while position < bytes.count, bytes[position] != 10 { position += 1 }
        position = min(position + 1, bytes.count)
    }

    /// Reads a sample, as a bit one digit; nil at the end and for anything else.
    mutating func sample(_ bytes: Span<UInt8>, isBit: Bool) -> Int? {
        guard let first = next(bytes), 0x30...0x39 ~= first else { return nil }
        var value = 0
        while position < bytes.count, 0x30...0x39 ~= bytes[position] {
            value = min(value * 10 + Int(bytes[position] - 0x30), Self.tooLarge)
            position += 1
            if isBit { break }
        }
        return value
    }

    mutating func number(_ bytes: Span<UInt8>) throws(WireError) -> Int {
        let number = sample(bytes, isBit: false)
        // More digits may be missing.
        guard position < bytes.count else { throw WireError(CODEC_TRUNCATED, format: .pnm) }
        guard let number else { throw WireError(CODEC_DAMAGED, format: .pnm) }
        return number
    }

    /// Reads a word of the header, of up to 16 letters.
    mutating func word(_ bytes: Span<UInt8>) throws(WireError) -> String {
        var word = ""
        guard next(bytes) != nil else { throw WireError(CODEC_TRUNCATED, format: .pnm) }
        while position < bytes.count, bytes[position] > 32, word.utf8.count < 16 {
            word.unicodeScalars.append(Unicode.Scalar(bytes[position]))
            position += 1
        }
        return word
    }
}
