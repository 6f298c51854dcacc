internal import IPCProtocol
internal import LinuxSystem

/// What the broker says when it starts a download worker.
struct FetchOptions: Equatable {
    /// Wrong use, in words.
    struct Mistake: Error, Equatable, CustomStringConvertible {
        let description: String
    }

    /// The process to die with; none when it is 0.
    var parent: Int32 = 0
    /// The user to become; none when it is nil.
    var uid: UInt32?
    /// The group to become, with `uid`.
    var gid: UInt32?
    /// The ranges of addresses that are opened.
    var allowedAddresses: [AddressRange] = []
    /// The proxy that all transfers go through, a URL of scheme http, https or socks5h; none when it is nil. Then
    /// `allowedAddresses` decide nothing: the only address that is connected to is the proxy's, so that which ones may be
    /// reached through it is for the proxy to say.
    var proxy: String?
    /// The bytes of the largest body; no limit to files when it is nil.
    var largestFile: Int?
    /// Bodies that come more slowly are given up.
    var speedFloor = SpeedFloor()
    /// A system call that nobody foresaw ends the process.
    var hasStrictSandbox = false
    /// The least grave level that is logged.
    var logLevel = LogLevel.notice

    /// Reads the arguments without the program's name.
    init(_ arguments: some Sequence<String>) throws(Mistake) {
        var rest = arguments.makeIterator()
        while let option = rest.next() {
            if option == "--strict-sandbox" {
                hasStrictSandbox = true
                continue
            }
            guard Self.names.contains(option) else { throw Mistake(description: "unknown option \(option)") }
            guard let value = rest.next() else { throw Mistake(description: "\(option) needs a value") }
            switch option {
            case "--parent": parent = try Self.parse(option, value, Int32.init)
            case "--uid": uid = try Self.parse(option, value, UInt32.init)
            case "--gid": gid = try Self.parse(option, value, UInt32.init)
            case "--allow-address": allowedAddresses.append(try Self.parse(option, value) { AddressRange($0) })
            case "--proxy": proxy = try Self.parse(option, value, Self.proxy)
            case "--largest-file": largestFile = try Self.parse(option, value) { Int($0).flatMap { $0 > 0 ? $0 : nil } }
            case "--min-speed":
                speedFloor.bytesPerSecond = try Self.parse(option, value) { Int($0).flatMap { $0 >= 0 ? $0 : nil } }
            case "--speed-seconds":
                speedFloor.seconds = try Self.parse(option, value) {
                    Int($0).flatMap { (1...3600).contains($0) ? $0 : nil }
                }
            default: logLevel = try Self.parse(option, value) { LogLevel(rawValue: $0) }
            }
        }
        if (uid == nil) != (gid == nil) { throw Mistake(description: "--uid and --gid go together") }
    }

    private static let names: Set = [
        "--parent", "--uid", "--gid", "--allow-address", "--proxy", "--largest-file", "--min-speed",
        "--speed-seconds", "--log-level",
    ]

    /// The text when it is a proxy's URL. Every scheme leaves looking up the names in URLs to the proxy.
    private static func proxy(_ text: String) -> String? {
        let parts = text.split(separator: "://", maxSplits: 1)
        guard parts.count == 2, ["http", "https", "socks5h"].contains(parts[0].lowercased()),
            (try? TransferURL("http://" + parts[1])) != nil
        else { return nil }
        return text
    }

    private static func parse<Value>(
        _ option: String, _ text: String, _ read: (String) -> Value?
    ) throws(Mistake) -> Value {
        guard let value = read(text) else { throw Mistake(description: "\(option) cannot be \(text)") }
        return value
    }
}
