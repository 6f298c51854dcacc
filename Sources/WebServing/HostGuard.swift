import HTTPValues

/// Decides by the Host field whether a request was meant for this server. A page of another site can make a browser
/// send requests here by giving its own name the address of this machine (DNS rebinding); then the field has that name.
package struct HostGuard {
    /// The names that are accepted besides localhost and numeric addresses, which no site can take for itself.
    private let names: Set<String>

    package init(allowing names: [String]) {
        self.names = Set(names.map { $0.lowercased() })
    }

    package func accepts(_ host: String?) -> Bool {
        guard let host else { return false }
        if host.first == "[" {
            guard let end = host.firstIndex(of: "]"), Self.isPort(host[host.index(after: end)...]) else { return false }
            return IPAddress(host[host.index(after: host.startIndex)..<end])?.isIPv4 == false
        }
        let colon = host.firstIndex(of: ":") ?? host.endIndex
        guard Self.isPort(host[colon...]) else { return false }
        let name = host[..<colon].lowercased()
        return name == "localhost" || IPAddress(name)?.isIPv4 == true || names.contains(name)
    }

    private static func isPort(_ text: Substring) -> Bool {
        let digits = text.dropFirst().utf8
        return text.isEmpty
            || text.first == ":" && digits.allSatisfy { (0x30...0x39).contains($0) }
                && (digits.isEmpty || UInt16(text.dropFirst()) != nil)
    }
}
