import IPCProtocol

/// The directories of an EXIF block: the image's, and that of its thumbnail.
package struct ExifDirectory {
    private let bytes: [UInt8]
    private let order: ByteOrder
    private let first: Int

    /// Takes an EXIF block without a prefix; nil if it does not begin like one.
    package init?(_ bytes: [UInt8]) {
        let span = bytes.span
        guard span.count >= 8 else { return nil }
        switch (span[0], span[1]) {
        case (0x49, 0x49): order = .little
        case (0x4D, 0x4D): order = .big
        default: return nil
        }
        guard span.integer(at: 2, bytes: 2, order) == 42, let first = span.integer(at: 4, bytes: 4, order) else {
            return nil
        }
        (self.bytes, self.first) = (bytes, first)
    }

    /// The resolution of the image in dots per inch.
    var density: ImageFacts.Density? {
        guard let x = ratio(of: 0x011A, in: first), let y = ratio(of: 0x011B, in: first) else { return nil }
        let unit = value(of: 0x0128, in: first) ?? 2
        let perInch = unit == 3 ? 2.54 : 1
        return unit == 1 ? nil : ImageFacts.Density(x: x * perInch, y: y * perInch)
    }

    /// The range of the thumbnail's JPEG in the block; nil without one that lies in it.
    package var thumbnail: Range<Int>? {
        let span = bytes.span
        guard let count = span.integer(at: first, bytes: 2, order),
            let second = span.integer(at: first + 2 + 12 * count, bytes: 4, order), second != 0,
            let start = value(of: 0x0201, in: second), let length = value(of: 0x0202, in: second),
            start > 0, length > 0, start <= bytes.count, length <= bytes.count - start
        else { return nil }
        return start..<start + length
    }

    /// The place of an entry in a directory.
    private func entry(_ tag: Int, in directory: Int) -> Int? {
        let span = bytes.span
        guard let count = span.integer(at: directory, bytes: 2, order) else { return nil }
        for index in 0..<count {
            let entry = directory + 2 + 12 * index
            guard let found = span.integer(at: entry, bytes: 2, order) else { return nil }
            if found == tag { return entry }
        }
        return nil
    }

    /// The value of an entry that is one short or long.
    private func value(of tag: Int, in directory: Int) -> Int? {
        guard let entry = entry(tag, in: directory) else { return nil }
        switch bytes.span.integer(at: entry + 2, bytes: 2, order) {
        case 3: return bytes.span.integer(at: entry + 8, bytes: 2, order)
        case 4: return bytes.span.integer(at: entry + 8, bytes: 4, order)
        default: return nil
        }
    }

    /// The value of an entry that is one quotient.
    private func ratio(of tag: Int, in directory: Int) -> Double? {
        guard let entry = entry(tag, in: directory), bytes.span.integer(at: entry + 2, bytes: 2, order) == 5,
            let place = bytes.span.integer(at: entry + 8, bytes: 4, order),
            let numerator = bytes.span.integer(at: place, bytes: 4, order),
            let denominator = bytes.span.integer(at: place + 4, bytes: 4, order), denominator > 0
        else { return nil }
        return Double(numerator) / Double(denominator)
    }
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
