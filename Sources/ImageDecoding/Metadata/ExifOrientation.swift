// EXIF is a TIFF structure: its header of 8 bytes contains the byte order and the offset of the first directory (IFD),
// which consists of a count and entries of 12 bytes. Offsets have 32 bits, so no sum of them overflows an Int.

extension Orientation {
    private static let tag = 0x0112

    /// Reads the orientation of an EXIF block; upright if it has none or is incomplete.
    package init(exif: Span<UInt8>) {
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
            // A short (type 3) by the standard; some writers use a long (4). Both are stored in the entry itself.
            switch exif.integer(at: entry + 2, bytes: 2, order) {
            case 3: return exif.integer(at: entry + 8, bytes: 2, order).flatMap(Orientation.init)
            case 4: return exif.integer(at: entry + 8, bytes: 4, order).flatMap(Orientation.init)
            default: return nil
            }
        }
        return nil
    }
}
