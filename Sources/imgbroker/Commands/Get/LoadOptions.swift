import HTTPValues
import IPCProtocol

/// The flags that say which variant to load and how, common to `get` and `ctl prefetch`.
struct LoadOptions {
    static let options: [CommandOption<LoadOptions>] =
        GetOptions.Variant.options.map { option in
            CommandOption(help: option.help) { load, value in
                if load.given.preset != nil { throw contradiction(value.name) }
                load.ownVariant = value.name
                try option.apply(&load.given.variant, value)
            }
        }
        + CommandOption<LoadOptions>.table([
            "--preset NAME": .value(
                "the variant of this name in the broker's configuration, instead of the options above"
            ) {
                if let ownVariant = $0.ownVariant { throw contradiction(ownVariant) }
                $0.given.preset = try $1.presetName()
            },
            "--as FORMAT": .choice(
                "the representation: pixels (default), original (the bytes as the origin sent them), or encoded again as png, jpeg or webp",
                \.given.representation),
            "--original": .value("the same as --as original") { load, _ in load.given.representation = .original },
            "--quality N": .number("of jpeg and webp, 1 to 100 (default: 85)", 1...100, \.given.quality),
            "--embedded USE": .choice(
                "off (default), or fast: decode a preview in the file that is at least as large as the result instead",
                \.given.embedded),
            "--accept-damage": .value("decode as much as possible of a damaged image") { load, _ in
                load.given.damaged = .accept
            },
            "--cache MODE": .choice(
                "use of the cache: default, no-cache, reload, force-cache, only-if-cached or no-store", \.given.cache),
            "--storage TIER": .choice(
                "the tiers that the result may enter: both (default), memory, disk or none", \.given.storage),
            "--priority P": .choice("the place in the queue: low, normal or high", \.given.priority),
            "--retry-failed": .flag("try again although it has recently failed", \.given.retryFailed),
            "--max-age N": .number(
                "the age in seconds that a cached response may have at most", 0...Int(Int32.max), \.given.maxAgeSeconds),
            "--retries N": .number(
                "retry a failed transfer at most this often, and never more often than the broker does", 0...100,
                \.given.retries),
            "--alternative URL": .value("load this URL if the one before fails (repeatable, up to 4, in order)") {
                if $0.given.alternatives.count == 4 { throw UsageError("\($1.name) can be given 4 times") }
                $0.given.alternatives.append(try $1.url())
            },
            "--timeout-ms N": .number(
                "give up when no data arrives for this time (default: 15000)", milliseconds, \.given.timeoutMs),
            "--total-timeout-ms N": .number(
                "give up after this total time (default: 60000)", milliseconds, \.given.totalTimeoutMs),
            "--header \"N: V\"": .value("send this request header, too (repeatable)") {
                let (name, value) = try $1.header()
                $0.headers[name] = value
            },
            "--credentials U:P": .value("send this user name and password (HTTP Basic) to the URL's host") {
                $0.given.credentials = try $1.credentials()
            },
            "--cookies": .flag("send and keep your cookies", \.given.cookies),
            "--cache-key NAME": .value("cache it under this name instead of its URL, e.g. for signed URLs") {
                $0.given.cacheKey = try $1.cacheKey()
            },
            "--allow-invalid-certificates": .flag(
                "do not verify the server's certificate, if the broker allows it", \.given.allowInvalidCertificates),
        ])

    static let help = options.map(\.help)

    private static let milliseconds = 1...24 * 3600 * 1000

    /// The options read so far, without the headers.
    private var given: GetOptions
    private var headers: [String: String] = [:]
    /// A flag that describes a variant, if one was given.
    private var ownVariant: String?

    init(_ defaults: GetOptions = GetOptions()) { given = defaults }

    var options: GetOptions {
        var options = given
        options.headers = headers.map { HeaderField(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
        return options
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
