/// A range of addresses in CIDR notation (RFC 4632): "10.0.0.0/8", "fd00::/8", or a single address.
package struct AddressRange: Hashable, Sendable, CustomStringConvertible {
    /// The first address of the range.
    package let base: IPAddress
    /// The number of leading bits that all its addresses share.
    package let prefixLength: Int

    /// Creates the range of addresses that share `prefixLength` bits with `address`; nil when the length is negative or
    /// exceeds the address.
    package init?(_ address: IPAddress, prefixLength: Int) {
        // A range of mapped addresses is converted to its IPv4 range.
        let mapped = prefixLength >= 96 ? address.mappedIPv4 : nil
        let prefixLength = mapped == nil ? prefixLength : prefixLength - 96
        let address = mapped ?? address
        guard (0...address.bytes.count * 8).contains(prefixLength) else { return nil }
        let bytes = address.bytes.indices.map { address.bytes[$0] & Self.mask(ofByte: $0, prefixLength) }
        guard let base = IPAddress(bytes: bytes) else { return nil }
        self.base = base
        self.prefixLength = prefixLength
    }

    /// Parses "address/length", or a single address; nil for any other text. Bits after the prefix are ignored.
    package init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = IPAddress(first) else { return nil }
        var length = address.bytes.count * 8
        if parts.count == 2 {
            guard parts[1].utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let number = Int(parts[1])
            else { return nil }
            length = number
        }
        self.init(address, prefixLength: length)
    }

    package func contains(_ address: IPAddress) -> Bool {
        guard address.bytes.count == base.bytes.count else { return false }
        for index in base.bytes.indices {
            let mask = Self.mask(ofByte: index, prefixLength)
            if mask == 0 { break }
            if address.bytes[index] & mask != base.bytes[index] { return false }
        }
        return true
    }

    /// The bits of a byte that belong to a prefix.
    private static func mask(ofByte index: Int, _ prefixLength: Int) -> UInt8 {
        ~UInt8(truncatingIfNeeded: 0xFF >> min(max(prefixLength - 8 * index, 0), 8))
    }

    /// The range in CIDR notation.
    package var description: String { "\(base)/\(prefixLength)" }
}

/// The addresses that a download may connect to: the globally routable ones, and the ranges that the administrator
/// allowed.
///
/// An IPv6 address that embeds an IPv4 address is permitted only if both are; a mapped address is treated as the IPv4
/// address. Addresses of private networks and of the machine itself are not globally routable.
package struct AddressPolicy: Sendable {
    /// The ranges allowed in addition to the globally routable ones.
    package let allowed: [AddressRange]

    package init(allowed: [AddressRange] = []) {
        self.allowed = allowed
    }

    /// Whether a download may connect to `address`.
    package func permits(_ address: IPAddress) -> Bool {
        if let mapped = address.mappedIPv4 { return permits(mapped) }
        guard Self.isGlobal(address) || allowed.contains(where: { $0.contains(address) }) else { return false }
        return address.embeddedIPv4.allSatisfy { permits($0) }
    }

    private static func isGlobal(_ address: IPAddress) -> Bool {
        if address.isIPv4 { return !specialIPv4.contains { $0.contains(address) } }
        return globalIPv6.contains { $0.contains(address) } && !specialIPv6.contains { $0.contains(address) }
    }

    /// IANA's IPv4 special-purpose address registry, except its globally reachable entries, and multicast. Two
    /// addresses of 192.0.0.0/24 are reachable, but serve no web pages.
    private static let specialIPv4 = ranges(
        "0.0.0.0/8",  // this network
        "10.0.0.0/8",  // private
        "100.64.0.0/10",  // shared by a carrier's customers
        "127.0.0.0/8",  // loopback
        "169.254.0.0/16",  // link-local, and the clouds' metadata
        "172.16.0.0/12",  // private
        "192.0.0.0/24",  // protocol assignments
        "192.0.2.0/24",  // documentation
        "192.88.99.0/24",  // 6to4 relays, deprecated
        "192.168.0.0/16",  // private
        "198.18.0.0/15",  // benchmarking
        "198.51.100.0/24",  // documentation
        "203.0.113.0/24",  // documentation
        "224.0.0.0/4",  // multicast
        "240.0.0.0/4"  // reserved, limited broadcast
    )

    /// The global unicast addresses in use, and the well-known prefix of NAT64.
    private static let globalIPv6 = ranges("2000::/3", "64:ff9b::/96")

    /// The entries of IANA's IPv6 special-purpose address registry within `globalIPv6`. A few ranges of 2001::/23 are
    /// reachable, but have no web servers; the registry leaves 6to4 undefined. Its other entries are outside
    /// `globalIPv6`.
    private static let specialIPv6 = ranges(
        "2001::/23",  // protocol assignments, with Teredo, benchmarking and ORCHID
        "2001:db8::/32",  // documentation
        "2002::/16",  // 6to4
        "3fff::/20"  // documentation
    )

    private static func ranges(_ texts: String...) -> [AddressRange] {
        texts.map { AddressRange($0)! }
    }
}
