import IPCProtocol

/// The directories of an EXIF block: the image's, and that of its thumbnail. Its functions are given the block again.
///
/// EXIF is a TIFF structure: its header of 8 bytes contains the byte order and the offset of the first directory (IFD),
/// which consists of a count and entries of 12 bytes. Offsets have 32 bits, so no sum of them overflows an Int.
package struct ExifDirectory {
    package let order: ByteOrder
    /// The place of the image's directory.
    package let first: Int

    /// Reads the header of an EXIF block without a prefix; nil if it has none.
    package init?(_ block: Span<UInt8>) {
        guard block.count >= 8 else { return nil }
        switch (block[0], block[1]) {
        case (0x49, 0x49): order = .little
        case (0x4D, 0x4D): order = .big
        default: return nil
        }
        guard block.integer(at: 2, bytes: 2, order) == 42, let first = block.integer(at: 4, bytes: 4, order) else {
            return nil
        }
        self.first = first
    }

    fileprivate func orientation(in block: Span<UInt8>) -> Orientation? {
        value(of: 0x0112, in: first, block).flatMap(Orientation.init)
    }

    func density(in block: Span<UInt8>) -> ImageFacts.Density? {
        guard let x = ratio(of: 0x011A, block), let y = ratio(of: 0x011B, block) else { return nil }
        let unit = value(of: 0x0128, in: first, block) ?? 2
        let perInch = unit == 3 ? 2.54 : 1
        return unit == 1 ? nil : ImageFacts.Density(x: x * perInch, y: y * perInch)
    }

    /// The range of the thumbnail's JPEG in the block; nil without one that lies in it.
    package func thumbnail(in block: Span<UInt8>) -> Range<Int>? {
        guard let count = block.integer(at: first, bytes: 2, order),
            let second = block.integer(at: first + 2 + 12 * count, bytes: 4, order), second != 0,
            let start = value(of: 0x0201, in: second, block), let length = value(of: 0x0202, in: second, block),
            start > 0, length > 0, start <= block.count, length <= block.count - start
        else { return nil }
        return start..<start + length
    }

    /// Returns the place of the first entry with a tag.
    package func entry(_ tag: Int, in directory: Int, _ block: Span<UInt8>) -> Int? {
        guard let count = block.integer(at: directory, bytes: 2, order) else { return nil }
        for index in 0..<count {
            let entry = directory + 2 + 12 * index
            guard let found = block.integer(at: entry, bytes: 2, order) else { return nil }
            if found == tag { return entry }
        }
        return nil
    }

    /// The value of an entry that is one short (type 3) or long (4). Some writers use a long where the standard has a
    /// short.
    private func value(of tag: Int, in directory: Int, _ block: Span<UInt8>) -> Int? {
        guard let entry = entry(tag, in: directory, block) else { return nil }
        switch block.integer(at: entry + 2, bytes: 2, order) {
        case 3: return block.integer(at: entry + 8, bytes: 2, order)
        case 4: return block.integer(at: entry + 8, bytes: 4, order)
        default: return nil
        }
    }

    /// The value of an entry of the image's directory that is one quotient.
    private func ratio(of tag: Int, _ block: Span<UInt8>) -> Double? {
        guard let entry = entry(tag, in: first, block), block.integer(at: entry + 2, bytes: 2, order) == 5,
            let place = block.integer(at: entry + 8, bytes: 4, order),
            let numerator = block.integer(at: place, bytes: 4, order),
            let denominator = block.integer(at: place + 4, bytes: 4, order), denominator > 0
        else { return nil }
        return Double(numerator) / Double(denominator)
    }
}

extension Orientation {
    /// Reads the orientation of an EXIF block; upright if it has none or is incomplete.
    package init(exif: Span<UInt8>) { self = ExifDirectory(exif)?.orientation(in: exif) ?? .upright }
}

extension ImageFacts.Density {
    /// A resolution in whole dots per inch; nil if it has none.
    package init?(x: Double, y: Double) {
        guard let x = Int(exactly: x.rounded()), let y = Int(exactly: y.rounded()), x > 0, y > 0,
            x <= Int(Int32.max), y <= Int(Int32.max)
        else { return nil }
        self.init(x: x, y: y)
    }
}
