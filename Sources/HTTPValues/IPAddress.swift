internal import Glibc

/// A numeric IPv4 or IPv6 address.
package struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    /// The address in network byte order: 4 or 16 bytes.
    package let bytes: [UInt8]

    /// Creates an address from 4 or 16 bytes; nil for any other number.
    package init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// Parses "192.0.2.1" or "2001:db8::1"; nil for any other text. Other spellings of IPv4 (octal, fewer parts),
    /// brackets and zones are not accepted.
    package init?(_ text: some StringProtocol) {
        let isIPv6 = text.utf8.contains(UInt8(ascii: ":"))
        var bytes = [UInt8](repeating: 0, count: isIPv6 ? 16 : 4)
        // A zero would end the text early.
        guard !text.utf8.contains(0), unsafe inet_pton(isIPv6 ? AF_INET6 : AF_INET, String(text), &bytes) == 1 else {
            return nil
        }
        self.bytes = bytes
    }

    /// Whether this is an IPv4 address.
    package var isIPv4: Bool { bytes.count == 4 }

    /// The address as text; IPv6 in the form of RFC 5952.
    package var description: String {
        if isIPv4 { return bytes.map(String.init).joined(separator: ".") }
        let groups = (0..<8).map { UInt16(bytes[2 * $0]) << 8 | UInt16(bytes[2 * $0 + 1]) }
        // The first of the longest runs of two or more zeros is abbreviated.
        var longest = 0..<0
        var start = 0
        for end in 1...8 where end == 8 || (groups[end] == 0) != (groups[start] == 0) {
            if groups[start] == 0, end - start >= 2, end - start > longest.count { longest = start..<end }
            start = end
        }
        let text = { (groups: ArraySlice<UInt16>) in groups.map { String($0, radix: 16) }.joined(separator: ":") }
        if longest.isEmpty { return text(groups[...]) }
        return text(groups[..<longest.lowerBound]) + "::" + text(groups[longest.upperBound...])
    }

    /// The IPv4 address that this IPv6 address represents on the wire (`::ffff:0:0/96`, RFC 4291).
    package var mappedIPv4: IPAddress? {
        guard !isIPv4, bytes[..<10].allSatisfy({ $0 == 0 }), bytes[10] == 0xFF, bytes[11] == 0xFF else { return nil }
        return IPAddress(bytes: Array(bytes[12...]))
    }

    /// The IPv4 addresses that packets to this IPv6 address may be delivered to: the last 32 bits of a mapped, a
    /// compatible (RFC 4291) and an ISATAP address (RFC 5214), and the addresses that 6to4 (RFC 3056), Teredo (RFC
    /// 4380: server and client) and NAT64 (RFC 6052, RFC 8215) embed.
    package var embeddedIPv4: [IPAddress] {
        guard !isIPv4 else { return [] }
        let last = Array(bytes[12...])
        var found: [[UInt8]] = []
        if mappedIPv4 != nil { found.append(last) }
        // Excludes the unspecified address and loopback, which have the same prefix.
        if bytes[..<12].allSatisfy({ $0 == 0 }), last[..<3] != [0, 0, 0] || last[3] > 1 { found.append(last) }
        if bytes.starts(with: [0x20, 0x02]) { found.append(Array(bytes[2..<6])) }
        if bytes.starts(with: [0x20, 0x01, 0, 0]) {
            found += [Array(bytes[4..<8]), last.map { ~$0 }]
        }
        if bytes.starts(with: [0, 0x64, 0xFF, 0x9B]), bytes[4..<12].allSatisfy({ $0 == 0 }) { found.append(last) }
        if bytes.starts(with: [0, 0x64, 0xFF, 0x9B, 0, 1]) {
            // Local prefixes of 48 and of 96 bits place the address differently; the other place is filled with zeros.
            found += [[bytes[6], bytes[7], bytes[9], bytes[10]], last].filter { $0 != [0, 0, 0, 0] }
        }
        if bytes[8] & ~2 == 0, bytes[9] == 0, bytes[10] == 0x5E, bytes[11] == 0xFE { found.append(last) }
        return found.compactMap { IPAddress(bytes: $0) }
    }
}
