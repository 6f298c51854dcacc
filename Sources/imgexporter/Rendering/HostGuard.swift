/// Decides by the Host field whether a request was meant for this server. A page of another site can make a browser send requests
/// here by giving its own name the address of this machine (DNS rebinding); then the field has that name.
struct HostGuard {
    /// The names that are accepted besides localhost and numeric addresses, which no site can take for itself.
    private let names: Set<String>

    /// Creates a guard that also accepts `names`.
    init(allowing names: [String]) {
        self.names = Set(names.map { $0.lowercased() })
    }

    /// Whether a request with this field is answered.
    func accepts(_ host: String?) -> Bool {
        guard let host else { return false }
        if host.first == "[" {
            guard let end = host.firstIndex(of: "]"), Self.isPort(host[host.index(after: end)...]) else { return false }
            let address = host[host.index(after: host.startIndex)..<end]
            return !address.isEmpty
                && address.utf8.allSatisfy { Self.hexadecimal.contains($0) || $0 == 0x3A || $0 == 0x2E }
        }
        let name = host.prefix { $0 != ":" }.lowercased()
        guard Self.isPort(host.dropFirst(name.count)) else { return false }
        return name == "localhost" || Self.isIPv4(name) || names.contains(name)
    }

    private static let hexadecimal = Set("0123456789abcdefABCDEF".utf8)

    private static func isPort(_ text: Substring) -> Bool {
        text.isEmpty || text.first == ":" && text.dropFirst().utf8.allSatisfy { (0x30...0x39).contains($0) }
    }

    private static func isIPv4(_ name: String) -> Bool {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
    }
}
