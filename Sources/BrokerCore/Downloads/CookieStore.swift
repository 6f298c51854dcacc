import HTTPValues
import WorkerProtocol

/// The cookies of one user, as lines that only the download worker reads. Each transfer reports its changes alone, so
/// two concurrent ones do not undo each other's.
///
/// The lines go into an order, in which a control character takes six bytes. So they have none but the six tabs, and
/// all lines together take at most twice `maximumBytes`, plus 30 bytes each for the tabs.
struct CookieStore {
    static let maximumLines = 300
    static let maximumBytes = 256 << 10

    /// By identity: domain, path and name (RFC 6265, section 5.3).
    private var cookies: [ExactText: (line: String, order: Int)] = [:]
    private var last = 0
    private var bytes = 0

    /// All cookies, the oldest first.
    var lines: [String] { cookies.values.sorted { $0.order < $1.order }.map(\.line) }

    mutating func apply(_ changes: CookieChanges) {
        for line in changes.removed {
            if let key = Self.key(of: line), cookies[key].map({ ExactText($0.line) }) == ExactText(line) { remove(key) }
        }
        for line in changes.changed {
            guard let key = Self.key(of: line) else { continue }
            remove(key)
            last += 1
            cookies[key] = (line, last)
            bytes += line.utf8.count
        }
        while cookies.count > Self.maximumLines || bytes > Self.maximumBytes,
            let oldest = cookies.min(by: { $0.value.order < $1.value.order })
        {
            remove(oldest.key)
        }
    }

    private mutating func remove(_ key: ExactText) {
        if let cookie = cookies.removeValue(forKey: key) { bytes -= cookie.line.utf8.count }
    }

    /// The identity of a line: domain, subdomains too, path, TLS only, expiry, name, value.
    private static func key(of line: String) -> ExactText? {
        guard line.utf8.count <= 8192, line.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
            return nil
        }
        let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
        guard fields.count == 7 else { return nil }
        // The mark of cookies that scripts must not read.
        let mark = "#HttpOnly_"
        let domain = fields[0].hasPrefix(mark) ? fields[0].dropFirst(mark.count) : fields[0]
        return ExactText("\(domain)\t\(fields[2])\t\(fields[5])")
    }
}
