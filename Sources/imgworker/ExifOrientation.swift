// EXIF is a TIFF structure: a header of 8 bytes names the byte order and the place of the first directory (IFD), which
// is a count and entries of 12 bytes. Offsets are within 32 bits, so no sum of them overflows an Int.

extension Orientation {
    private static let tag = 0x0112

    /// The orientation that an EXIF block states; upright when it states none, or is not whole.
    init(exif: Span<UInt8>) {
        self = Self.stated(in: exif) ?? .upright
    }

    private static func stated(in exif: Span<UInt8>) -> Orientation? {
        guard exif.count >= 8 else { return nil }
        let order: ByteOrder
        switch (exif[0], exif[1]) {
        case (0x49, 0x49): order = .little
        case (0x4D, 0x4D): order = .big
        default: return nil
        }
        guard exif.integer(at: 2, bytes: 2, order) == 42,
            let directory = exif.integer(at: 4, bytes: 4, order),
            let count = exif.integer(at: directory, bytes: 2, order)
        else { return nil }
        for index in 0..<count {
            let entry = directory + 2 + index * 12
            guard let tag = exif.integer(at: entry, bytes: 2, order) else { return nil }
            guard tag == Self.tag else { continue }
            // A short by the standard (type 3); a long (4) is met as well. Both stand in the entry itself.
            switch exif.integer(at: entry + 2, bytes: 2, order) {
            case 3: return exif.integer(at: entry + 8, bytes: 2, order).flatMap(Orientation.init)
            case 4: return exif.integer(at: entry + 8, bytes: 4, order).flatMap(Orientation.init)
            default: return nil
            }
        }
        return nil
    }
}

/// Which byte of a number comes first.
enum ByteOrder {
    case big, little
}

extension Span where Element == UInt8 {
    /// The unsigned number of up to 7 `bytes` at `offset`; nil when it is not whole.
    func integer(at offset: Int, bytes: Int, _ order: ByteOrder) -> Int? {
        guard offset >= 0, bytes <= count, offset <= count - bytes else { return nil }
        var value = 0
        for index in 0..<bytes {
            let position = order == .big ? index : bytes - 1 - index
            value = value << 8 | Int(self[offset + position])
        }
        return value
    }

    /// Whether `text` stands at `offset`.
    func hasText(_ text: StaticString, at offset: Int) -> Bool {
        let length = text.utf8CodeUnitCount
        guard offset >= 0, length <= count, offset <= count - length else { return false }
        for index in 0..<length where unsafe self[offset + index] != text.utf8Start[index] { return false }
        return true
    }
}
