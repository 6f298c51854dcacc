internal import Glibc

/// The host of a URL in its canonical spelling (WHATWG URL Standard, section 3.5): an ASCII name in lower case without
/// a dot at its end, or a numeric address.
enum HostName {
    /// The most bytes of a host as it is written.
    static let longest = 1024

    /// Returns the canonical spelling.
    ///
    /// - Throws: `InvalidURL`, which names the fault.
    static func canonical(
        _ written: ArraySlice<UInt8>, _ international: inout InternationalHosts
    ) throws(InvalidURL) -> [UInt8] {
        guard written.count <= longest else { throw bad("host of more than \(longest) bytes") }
        if written.first == UInt8(ascii: "[") { return try address(inBrackets: written) }
        var host = percentDecoded(written)
        if host.contains(where: { $0 >= 0x80 }) { host = try international.asciiName(host) }
        for index in host.indices where (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(host[index]) {
            host[index] |= 0x20
        }
        if host.last == UInt8(ascii: ".") { host.removeLast() }
        guard !host.isEmpty, host.last != UInt8(ascii: "."), host.allSatisfy(isOfName) else {
            throw bad("no valid host")
        }
        guard endsInNumber(host) else { return host }
        guard let number = number(ofAddress: host) else {
            throw bad("no valid host: it ends in a number, but is no IPv4 address")
        }
        let bytes = (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
        return Array(bytes.map(String.init).joined(separator: ".").utf8)
    }

    fileprivate static func bad(_ what: String) -> InvalidURL { InvalidURL(.malformed, "url has \(what)") }

    /// Whether a host in lower case is certain to be in canonical spelling, as far as its last label says that: a name,
    /// or an IPv4 address of four decimal numbers.
    static func isPlainlyCanonical(_ bytes: Span<UInt8>, _ host: Range<Int>) -> Bool {
        var start = host.upperBound
        while start > host.lowerBound, bytes[start - 1] != UInt8(ascii: ".") { start -= 1 }
        guard start < host.upperBound else { return false }
        if !isDigit(bytes[start]) { return true }
        // At most three digits without a leading zero, four times.
        var (value, digits, dots) = (0, 0, 0)
        for index in host {
            if isDigit(bytes[index]) {
                if digits > 0, value == 0 { return false }
                (value, digits) = (value * 10 + Int(bytes[index] - UInt8(ascii: "0")), digits + 1)
                if value > 255 { return false }
            } else {
                guard bytes[index] == UInt8(ascii: "."), digits > 0 else { return false }
                (value, digits, dots) = (0, 0, dots + 1)
            }
        }
        return dots == 3
    }

    /// The characters of names. Others could end a host early where it is read.
    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"),
            UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
            true
        default: false
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    /// Replaces "%" and two hexadecimal digits by the byte that they mean.
    static func percentDecoded(_ written: ArraySlice<UInt8>) -> [UInt8] {
        guard written.contains(UInt8(ascii: "%")) else { return Array(written) }
        var result: [UInt8] = []
        result.reserveCapacity(written.count)
        var index = written.startIndex
        while index < written.endIndex {
            let byte = written[index]
            index += 1
            if byte == UInt8(ascii: "%"), index + 1 < written.endIndex, let high = hexadecimal(written[index]),
                let low = hexadecimal(written[index + 1])
            {
                result.append(high << 4 | low)
                index += 2
            } else {
                result.append(byte)
            }
        }
        return result
    }

    private static func hexadecimal(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    // MARK: Addresses

    /// An IPv6 address as in RFC 5952. One with a zone, which the standard does not know, stays as it is.
    private static func address(inBrackets written: some Collection<UInt8>) throws(InvalidURL) -> [UInt8] {
        let text = String(decoding: written.dropFirst().dropLast(), as: UTF8.self).lowercased()
        let zone = text.firstIndex(of: "%") ?? text.endIndex
        guard written.count > 3, Array(written).last == UInt8(ascii: "]"), let address = IPAddress(text[..<zone]),
            !address.isIPv4, text[zone...].utf8.allSatisfy({ isOfName($0) || $0 == UInt8(ascii: "%") })
        else { throw bad("no valid host") }
        return Array("[\(address)\(text[zone...])]".utf8)
    }

    /// Whether the last label makes the host an IPv4 address: decimal digits, or a hexadecimal number.
    private static func endsInNumber(_ host: [UInt8]) -> Bool {
        guard let last = host.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).last else {
            return false
        }
        return !last.isEmpty && last.allSatisfy(isDigit)
            || last.starts(with: "0x".utf8) && last.dropFirst(2).allSatisfy { hexadecimal($0) != nil }
    }

    /// The IPv4 address of one to four numbers, of which the last one fills the rest.
    private static func number(ofAddress host: [UInt8]) -> UInt32? {
        let parts = host.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(part)
        guard parts.count <= 4, let last = parts.last ?? nil, last < 1 << (8 * (5 - parts.count)) else { return nil }
        var number = last
        for (index, part) in parts.dropLast().enumerated() {
            guard let part, part < 256 else { return nil }
            number |= part << (24 - 8 * index)
        }
        return UInt32(number)
    }

    /// A decimal number, an octal one after a "0", or a hexadecimal one after "0x"; nil for other text.
    private static func part(_ text: some Collection<UInt8>) -> UInt64? {
        let digits = String(decoding: text, as: UTF8.self)
        guard !digits.isEmpty, !digits.hasPrefix("-"), !digits.hasPrefix("+") else { return nil }
        if digits.hasPrefix("0x") {
            let digits = digits.dropFirst(2)
            // Leading zeros may be many.
            return digits.isEmpty ? 0 : UInt64(digits, radix: 16)
        }
        return digits.hasPrefix("0") && digits.utf8.count > 1 ? UInt64(digits, radix: 8) : UInt64(digits)
    }
}

/// The conversion of the international hosts of one message to ASCII, as much of it as takes less than two
/// milliseconds.
public struct InternationalHosts {
    /// The most bytes of hosts that are converted; one that repeats the host before it does not count.
    public static let longest = 8192

    private var bytesLeft = Self.longest
    private var last: (written: [UInt8], name: [UInt8]) = ([], [])

    public init() {}

    /// Converts a name by UTS 46 (nontransitional), with GNU libidn2, as libcurl does. The library is loaded for the
    /// first such name, because most processes never meet one.
    mutating func asciiName(_ host: [UInt8]) throws(InvalidURL) -> [UInt8] {
        if host == last.written { return last.name }
        bytesLeft -= host.count
        guard bytesLeft >= 0 else {
            throw HostName.bad("an international host after \(Self.longest) bytes of others: write it as an xn-- name")
        }
        guard let convert = unsafe Self.converter else {
            throw HostName.bad("an international host, for which libidn2 is not installed")
        }
        // A zero byte would end the text early.
        guard !host.contains(0), String(validating: host, as: UTF8.self) != nil else {
            throw HostName.bad("no valid host")
        }
        var result: UnsafeMutablePointer<CChar>?
        let status = unsafe (host.map { CChar(bitPattern: $0) } + [0]).withUnsafeBufferPointer {
            unsafe convert($0.baseAddress, &result, Self.nontransitional)
        }
        defer { unsafe free(result) }
        guard status == 0, let name = unsafe result else {
            throw HostName.bad("an international host that IDNA does not permit")
        }
        last = unsafe (host, Array(String(cString: name).utf8))
        return last.name
    }

    /// `IDN2_NONTRANSITIONAL`.
    private static let nontransitional: CInt = 8

    private typealias Converter =
        @convention(c) (
            UnsafePointer<CChar>?, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, CInt
        ) -> CInt

    private static let converter: Converter? = {
        guard let library = unsafe dlopen("libidn2.so.0", RTLD_NOW),
            let symbol = unsafe dlsym(library, "idn2_to_ascii_8z")
        else { return nil }
        return unsafe unsafeBitCast(symbol, to: Converter.self)
    }()
}
