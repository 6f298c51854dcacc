internal import LinuxSystem
import WorkerProtocol

/// libcurl's cookie jar in one transfer: the cookies of a user. libcurl decides which cookies go to which host, and
/// which a host may set (RFC 6265 with the public suffix list).
struct CookieJar {
    /// The limit of lines that are loaded, and of those that are reported.
    static let mostLines = 300
    static let longestLine = 8 << 10
    /// The limit of reported bytes. A report with as many fits into a frame.
    static let mostReportedBytes = 384 << 10

    private let given: [String]
    private let loaded: Set<String>

    /// Enables cookies for a transfer, with these lines in Netscape's format.
    init(_ lines: [String], for handle: EasyHandle) {
        given = Array(lines.lazy.filter(Self.isLine).prefix(Self.mostLines))
        handle.useCookies(given)
        loaded = Set(handle.cookies)
    }

    func changes(in handle: EasyHandle) -> CookieChanges {
        Self.changes(given: given, loaded: loaded, now: handle.cookies, seconds: WallClock.milliseconds / 1000)
    }

    /// Compares the cookies as given, as libcurl has loaded them, and as they are `now`, at `seconds` since 1970.
    static func changes(given: [String], loaded: Set<String>, now: [String], seconds: Int) -> CookieChanges {
        // libcurl marks a cookie that a server removes as expired, and lists it until it uses the cookies again.
        let alive = now.filter { line in
            let expires = field(4, of: line).flatMap { Int($0) } ?? 0
            return expires == 0 || expires >= seconds
        }
        let names = Set(alive.map(identity))
        var left = mostReportedBytes
        let fits = { (line: String) in
            left -= line.utf8.count + 3
            return left >= 0
        }
        let changed = alive.lazy.filter { !loaded.contains($0) && $0.utf8.count <= longestLine }.prefix(mostLines)
            .prefix(while: fits)
        let removed = given.filter { !names.contains(identity($0)) }
        return CookieChanges(changed: Array(changed), removed: removed.prefix(while: fits))
    }

    /// Whether a line is a cookie. libcurl takes some words as commands, and "Set-Cookie:" as a header field.
    static func isLine(_ line: String) -> Bool {
        line.utf8.count <= longestLine && (6...7).contains(line.utf8.count { $0 == 0x09 } + 1)
            && line.utf8.allSatisfy { ($0 >= 0x20 || $0 == 0x09) && $0 != 0x7F }
            && !line.lowercased().hasPrefix("set-cookie:")
    }

    /// The identity of a cookie: its domain, path and name.
    private static func identity(_ line: String) -> [String] {
        let domain = (field(0, of: line) ?? "").lowercased()
        return [
            String(domain.hasPrefix("#httponly_") ? domain.dropFirst(10) : domain[...]), field(2, of: line) ?? "",
            field(5, of: line) ?? "",
        ]
    }

    private static func field(_ index: Int, of line: String) -> String? {
        let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
        return index < fields.count ? String(fields[index]) : nil
    }
}
