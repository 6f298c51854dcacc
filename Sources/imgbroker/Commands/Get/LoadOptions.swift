import HTTPValues
import IPCProtocol

/// The flags that say which variant to load and how, common to `get` and `ctl prefetch`.
struct LoadOptions {
    static let help =
        VariantOption.all.map(\.help)
        + FlagHelp.table([
            "--preset NAME": "the variant of this name in the broker's configuration, instead of the options above",
            "--as FORMAT": .init(
                "the representation: pixels (default), original (the bytes as the origin sent them), or encoded again as png, jpeg or webp",
                oneOf: GetOptions.Representation.self),
            "--original": "the same as --as original",
            "--quality N": "of jpeg and webp, 1 to 100 (default: 85)",
            "--embedded USE": .init(
                "off (default), or fast: decode a preview in the file that is at least as large as the result instead",
                oneOf: GetOptions.Embedded.self),
            "--accept-damage": "decode as much as possible of a damaged image",
            "--cache MODE": .init(
                "use of the cache: default, no-cache, reload, force-cache, only-if-cached or no-store",
                oneOf: GetOptions.CacheMode.self),
            "--storage TIER": .init(
                "the tiers that the result may enter: both (default), memory, disk or none",
                oneOf: GetOptions.Storage.self),
            "--priority P": .init("the place in the queue: low, normal or high", oneOf: GetOptions.Priority.self),
            "--retry-failed": "try again although it has recently failed",
            "--max-age N": "the age in seconds that a cached response may have at most",
            "--retries N": "retry a failed transfer at most this often, and never more often than the broker does",
            "--alternative URL": "load this URL if the one before fails (repeatable, up to 4, in order)",
            "--timeout-ms N": "give up when no data arrives for this time (default: 15000)",
            "--total-timeout-ms N": "give up after this total time (default: 60000)",
            "--header \"N: V\"": "send this request header, too (repeatable)",
            "--credentials U:P": "send this user name and password (HTTP Basic) to the URL's host",
            "--cookies": "send and keep your cookies",
            "--cache-key NAME": "cache it under this name instead of its URL, e.g. for signed URLs",
            "--allow-invalid-certificates": "do not verify the server's certificate, if the broker allows it",
        ])

    /// The options read so far, without the headers.
    private var given: GetOptions
    private var headers: [String: String] = [:]
    private(set) var flags: Set<String> = []
    /// A flag that describes a variant, if one was given.
    private var ownVariant: String?

    init(_ defaults: GetOptions = GetOptions()) { given = defaults }

    var options: GetOptions {
        var options = given
        options.headers = headers.map { HeaderField(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
        return options
    }

    /// Reads the value of a flag of this group. Returns false for other flags.
    mutating func take(_ flag: String, _ arguments: inout Arguments) throws(UsageError) -> Bool {
        flags.insert(flag)
        let milliseconds = 1...24 * 3600 * 1000
        if let option = VariantOption.all.first(where: { $0.flag == flag }) {
            if given.preset != nil { throw Self.contradiction(flag) }
            ownVariant = flag
            let value = option.value == nil ? GivenValue(name: flag, text: "true") : try arguments.given(flag)
            try option.apply(&given.variant, value)
            return true
        }
        switch flag {
        case "--preset":
            if let ownVariant { throw Self.contradiction(ownVariant) }
            given.preset = try arguments.given(flag).presetName()
        case "--as": given.representation = try arguments.given(flag).choice()
        case "--original": given.representation = .original
        case "--quality": given.quality = try arguments.given(flag).number(in: 1...100)
        case "--embedded": given.embedded = try arguments.given(flag).choice()
        case "--accept-damage": given.damaged = .accept
        case "--cache": given.cache = try arguments.given(flag).choice()
        case "--storage": given.storage = try arguments.given(flag).choice()
        case "--priority": given.priority = try arguments.given(flag).choice()
        case "--retry-failed": given.retryFailed = true
        case "--max-age": given.maxAgeSeconds = try arguments.given(flag).number(in: 0...Int(Int32.max))
        case "--retries": given.retries = try arguments.given(flag).number(in: 0...100)
        case "--alternative":
            let value = try arguments.given(flag)
            if given.alternatives.count == 4 { throw UsageError("\(flag) can be given 4 times") }
            given.alternatives.append(try value.url())
        case "--timeout-ms": given.timeoutMs = try arguments.given(flag).number(in: milliseconds)
        case "--total-timeout-ms": given.totalTimeoutMs = try arguments.given(flag).number(in: milliseconds)
        case "--header":
            let (name, value) = try arguments.given(flag).header()
            headers[name] = value
        case "--credentials": given.credentials = try arguments.given(flag).credentials()
        case "--cookies": given.cookies = true
        case "--cache-key": given.cacheKey = try arguments.given(flag).cacheKey()
        case "--allow-invalid-certificates": given.allowInvalidCertificates = true
        default: return false
        }
        return true
    }

    private static func contradiction(_ flag: String) -> UsageError {
        UsageError("\(flag) does not go with --preset, which stands for the whole variant")
    }
}

extension GivenValue {
    fileprivate func url() throws(UsageError) -> SourceURL {
        do throws(InvalidURL) { return try SourceURL(text) } catch {
            throw UsageError("\(name) needs a URL: \(error.message)")
        }
    }

    fileprivate func header() throws(UsageError) -> (name: String, value: String) {
        guard let colon = text.firstIndex(of: ":"), colon != text.startIndex else { throw needs("\"Name: value\"") }
        return (text[..<colon].lowercased(), String(text[text.index(after: colon)...].drop { $0 == " " }))
    }

    fileprivate func credentials() throws(UsageError) -> Credentials {
        guard let colon = text.firstIndex(of: ":") else {
            // Not repeated in the message: it may be the password.
            throw UsageError("\(name) needs USER:PASSWORD, with a colon")
        }
        return Credentials(username: String(text[..<colon]), password: String(text[text.index(after: colon)...]))
    }

    fileprivate func cacheKey() throws(UsageError) -> String {
        guard (1...1024).contains(text.utf8.count) else {
            throw UsageError("\(name) needs a name of 1 to 1024 bytes, not one of \(text.utf8.count)")
        }
        return text
    }
}
