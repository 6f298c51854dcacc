/// A time in seconds, written with an optional unit.
struct Seconds {
    /// The maximum, a hundred years: sums of two times fit into all formats.
    private static let longest = 36_525 * 86_400

    let value: Int

    /// Parses "45", "90s", "30m", "12h" or "7d"; nil for other text, or more than a hundred years.
    init?(_ text: some StringProtocol) {
        let units = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        let unit = text.last.flatMap { units[String($0)] }
        let digits = unit == nil ? text[...] : text.dropLast()
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(digits) else { return nil }
        let (product, overflowed) = number.multipliedReportingOverflow(by: unit ?? 1)
        if overflowed || product > Self.longest { return nil }
        value = product
    }
}

/// A number of bytes or pixels in readable form.
struct ByteCount: CustomStringConvertible {
    /// The base of K, M and G: 1024 for bytes, 1000 for pixels.
    enum Unit: Int {
        case binary = 1024
        case decimal = 1000
    }

    let value: Int

    init(_ value: Int) { self.value = value }

    /// Parses "500", "64K", "512M" or "4G"; nil for other text, or on overflow.
    init?(_ text: String, unit: Unit = .binary) {
        var digits = text[...]
        var factor = 1
        if let suffix = text.last, let power = ["K", "M", "G"].firstIndex(of: suffix.uppercased()) {
            digits = digits.dropLast()
            for _ in 0...power { factor *= unit.rawValue }
        }
        guard let number = Int(digits), number >= 0, digits.first?.isNumber == true else { return nil }
        let (product, overflowed) = number.multipliedReportingOverflow(by: factor)
        if overflowed { return nil }
        value = product
    }

    /// The number of bytes with at most three digits: "0 B", "980 B", "1.4 KiB", "512 MiB".
    var description: String {
        if value < 1024 { return "\(value) B" }
        var (scaled, unit) = (Double(value) / 1024, 0)
        while scaled >= 999.5, unit < 3 {
            scaled /= 1024
            unit += 1
        }
        let tenths = Int((scaled * 10).rounded())
        let text = tenths < 100 ? "\(tenths / 10).\(tenths % 10)" : "\(Int(scaled.rounded()))"
        return "\(text) \(["KiB", "MiB", "GiB", "TiB"][unit])"
    }
}
