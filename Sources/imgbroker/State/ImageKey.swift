import Digests
import HTTPValues
import IPCProtocol

/// What makes two requests ask for the same original: whoever differs in it never shares a result, in flight or cached.
struct OriginalKey: Hashable, Sendable {
    /// The URL; where the asker has given another name, one of those that were loaded under it.
    let url: SourceURL
    /// What else counts; nil where nothing does, as with most.
    private(set) var particulars: Particulars?
    /// The user to whom the original belongs: whoever's rights or word brought it here; nil for all.
    private(set) var owner: UInt32?

    /// What few requests say. In an object of its own, as there may be a million keys.
    final class Particulars: Hashable, Sendable {
        let cacheKey: String?
        let headers: [HeaderField]
        let credentials: String?
        let cookies: Bool
        let allowInvalidCertificates: Bool
        let nonce: Int

        /// Nil where nothing is said.
        init?(
            cacheKey: String?, headers: [HeaderField], credentials: String?, cookies: Bool,
            allowInvalidCertificates: Bool, nonce: Int
        ) {
            (self.cacheKey, self.headers, self.credentials) = (cacheKey, headers, credentials)
            (self.cookies, self.allowInvalidCertificates, self.nonce) = (cookies, allowInvalidCertificates, nonce)
            if cacheKey == nil, headers.isEmpty, credentials == nil, !cookies, !allowInvalidCertificates, nonce == 0 {
                return nil
            }
        }

        static func == (left: Particulars, right: Particulars) -> Bool {
            left.cacheKey == right.cacheKey && left.headers == right.headers && left.credentials == right.credentials
                && left.cookies == right.cookies && left.nonce == right.nonce
                && left.allowInvalidCertificates == right.allowInvalidCertificates
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(cacheKey)
            hasher.combine(headers)
        }
    }

    /// The asker's own name for what the URL leads to; it counts instead of the URL.
    var cacheKey: String? { particulars?.cacheKey }
    /// Request headers, names in lower case, sorted.
    var headers: [HeaderField] { particulars?.headers ?? [] }
    /// A digest of the credentials, so that the index keeps no password.
    var credentials: String? { particulars?.credentials }
    /// Whether the user's cookies go with the request.
    var cookies: Bool { particulars?.cookies ?? false }
    /// Whether the server's certificate is not looked at.
    var allowInvalidCertificates: Bool { particulars?.allowInvalidCertificates ?? false }
    /// Not 0 for what no request can ask for: given bytes that are not believed yet.
    var nonce: Int { particulars?.nonce ?? 0 }

    init(_ request: GetRequest, uid: UInt32) {
        url = request.url
        let options = request.options
        let credentials = options.credentials.map {
            // A name holds no colon, so the pair can be read in one way only.
            SHA256.hexadecimalDigest(of: "\($0.username):\($0.password)".utf8)
        }
        particulars = Particulars(
            cacheKey: options.cacheKey, headers: options.headers, credentials: credentials, cookies: options.cookies,
            allowInvalidCertificates: options.allowInvalidCertificates, nonce: 0)
        let isPersonal =
            credentials != nil || options.cookies || options.cacheKey != nil
            || options.headers.contains { RequestHeaders.personal.contains($0.name) }
        owner = isPersonal ? uid : nil
    }

    /// The key that is made of this.
    init(url: SourceURL, particulars: Particulars?, owner: UInt32?) {
        (self.url, self.particulars, self.owner) = (url, particulars, owner)
    }

    /// The same original, where the asker's own name counts instead of the URL.
    func loaded(from url: SourceURL) -> OriginalKey { OriginalKey(url: url, particulars: particulars, owner: owner) }

    /// The same original as `uid`'s own.
    func owned(by uid: UInt32) -> OriginalKey {
        var key = self
        key.owner = uid
        return key
    }

    /// The same original as everybody's.
    var ofAll: OriginalKey {
        var key = self
        key.owner = nil
        return key
    }

    /// The same original under a name that nobody can ask for.
    func hidden(as nonce: Int) -> OriginalKey {
        var key = self
        key.particulars = Particulars(
            cacheKey: cacheKey, headers: headers, credentials: credentials, cookies: cookies,
            allowInvalidCertificates: allowInvalidCertificates, nonce: nonce)
        return key
    }

    static func == (left: OriginalKey, right: OriginalKey) -> Bool {
        // The URL byte for byte, as it is hashed: otherwise other bytes may be the same text.
        left.owner == right.owner && left.particulars == right.particulars
            && (left.particulars?.cacheKey != nil || right.url.isSpelled(left.url.text.utf8Span.span))
    }

    func hash(into hasher: inout Hasher) {
        Self.hash(url.text.utf8Span.span, particulars, owner, into: &hasher)
    }

    /// Hashes what a key is made of.
    static func hash(_ url: Span<UInt8>, _ particulars: Particulars?, _ owner: UInt32?, into hasher: inout Hasher) {
        if particulars?.cacheKey == nil { unsafe url.withUnsafeBytes { unsafe hasher.combine(bytes: $0) } }
        if let particulars { hasher.combine(particulars) }
        hasher.combine(owner)
    }

    /// The key as a word of hexadecimal digits, by which the disk tier knows it.
    var word: String {
        // Lines hold no line breaks: neither URLs nor headers may.
        var lines = [cacheKey.map { "key \($0)" } ?? url.text] + headers.map { "\($0.name): \($0.value)" }
        lines.append("credentials \(credentials ?? "none")")
        lines.append("owner \(owner.map { "\($0)" } ?? "all")")
        if cookies { lines.append("cookies") }
        if allowInvalidCertificates { lines.append("any certificate") }
        return SHA256.hexadecimalDigest(of: lines.joined(separator: "\n").utf8)
    }
}

/// What is made of an original's bytes.
enum Form: Hashable, Sendable {
    /// Nothing: the bytes themselves.
    case original
    /// Pixels, so transformed.
    case pixels(Transform)
    /// Such pixels, encoded again.
    case encoded(Transform, Encoding)

    init(_ options: GetOptions, scaleDownLimit: Int) {
        var transform = options.variant.transform(scaleDownLimit: scaleDownLimit)
        if options.representation == .original {
            self = .original
        } else if let format = options.representation.format {
            // A file says for itself how its pixels are stored.
            (transform.pixelFormat, transform.alpha) = (.rgba8, .straight)
            self = .encoded(transform, Encoding(format, quality: options.quality))
        } else {
            self = .pixels(transform)
        }
    }

    /// How the original is transformed; nil where it is not.
    var transform: Transform? {
        switch self {
        case .original: nil
        case .pixels(let transform), .encoded(let transform, _): transform
        }
    }

    /// How the pixels are encoded; nil where they are not.
    var encoding: Encoding? { if case .encoded(_, let encoding) = self { encoding } else { nil } }

    /// Whether it is of other frames than the first: then a failure says nothing of what others ask for.
    var isOfOtherFrames: Bool { transform.map { $0.frames != .one(0) } ?? false }

    /// Whether it may take much longer to make than the picture itself: then that says nothing of other forms either.
    var isCostly: Bool { encoding != nil || isOfOtherFrames || transform?.isLight == true }

    /// The form as a word, by which the disk tier knows a raster; nil for what it does not keep: the original, all frames
    /// of an animation, and pixels of full size, which are made from it about as fast as they are read.
    var rasterWord: String? {
        switch self {
        case .pixels(let transform) where transform.isScaling && transform.frames != .all:
            "\(transform.canonical)-\(Self.decoderVersion)"
        case .encoded(let transform, let encoding):
            "\(transform.canonical)-\(encoding.canonical)-\(Self.decoderVersion)"
        case .original, .pixels: nil
        }
    }

    /// Changes whenever the decode worker makes other pixels of the same bytes.
    static let decoderVersion = "3"
}

/// What makes two requests want the same result: the same bytes, made into the same form.
struct VariantKey: Hashable, Sendable {
    let digest: ContentDigest
    let form: Form
}
