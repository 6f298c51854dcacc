/// A server of the shared tier by its name, which must be the same on all brokers: it determines the places of keys.
package struct ServerName: Equatable, Sendable {
    /// A host name, an IPv4 address or an IPv6 address without brackets.
    package let host: String
    package let port: UInt16

    /// memcached's own port.
    static let usualPort: UInt16 = 11211

    /// Reads "host", "host:port", "[IPv6]" or "[IPv6]:port"; nil for other texts.
    package init?(_ text: String) {
        var rest = text[...]
        if rest.first == "[" {
            guard let end = rest.firstIndex(of: "]") else { return nil }
            host = String(rest[rest.index(after: rest.startIndex)..<end])
            rest = rest[rest.index(after: end)...]
            guard host.utf8.contains(UInt8(ascii: ":")) else { return nil }
        } else {
            host = String(rest.prefix { $0 != ":" })
            rest = rest.dropFirst(host.count)
        }
        let characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:_"
        guard !host.isEmpty, host.utf8.count <= 253, host.allSatisfy(characters.contains) else { return nil }
        if rest.isEmpty {
            port = Self.usualPort
        } else {
            guard rest.first == ":", let number = UInt16(rest.dropFirst()), number > 0 else { return nil }
            port = number
        }
    }

    package var text: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
