import IPCProtocol
import SharedCache

/// What makes two requests ask for the same original: whoever differs in it never shares a result, in flight or cached.
struct OriginalKey: Hashable, Sendable {
    let url: SourceURL
    /// Request headers, names in lower case, sorted.
    let headers: [HeaderField]
    /// A digest of the credentials, so that the index keeps no password.
    let credentials: String?
    /// The asking user, where the request carries that user's rights.
    let owner: UInt32?

    init(_ request: GetRequest, uid: UInt32) {
        url = request.url
        headers = request.options.headers
        credentials = request.options.credentials.map {
            // A name holds no colon, so the pair can be read in one way only.
            SHA256.hexadecimalDigest(of: "\($0.username):\($0.password)".utf8)
        }
        let isPersonal = credentials != nil || headers.contains { RequestHeaders.personal.contains($0.name) }
        owner = isPersonal ? uid : nil
    }

    /// The key as a word of hexadecimal digits, by which the disk tier knows it.
    var word: String {
        // Lines hold no line breaks: neither URLs nor headers may.
        var lines = [url.text] + headers.map { "\($0.name): \($0.value)" }
        lines.append("credentials \(credentials ?? "none")")
        lines.append("owner \(owner.map { "\($0)" } ?? "all")")
        return SHA256.hexadecimalDigest(of: lines.joined(separator: "\n").utf8)
    }
}

/// The SHA-256 of an original's bytes.
struct ContentDigest: Hashable, Sendable {
    private let words: SIMD4<UInt64>

    /// 64 hexadecimal digits.
    var hexadecimal: String {
        (0..<4).map { index in
            let digits = String(words[index], radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    /// Reads 64 hexadecimal digits.
    init?(hexadecimal: String) {
        guard hexadecimal.utf8.count == 64 else { return nil }
        var words = SIMD4<UInt64>()
        var rest = hexadecimal[...]
        for index in 0..<4 {
            guard let word = UInt64(rest.prefix(16), radix: 16) else { return nil }
            words[index] = word
            rest = rest.dropFirst(16)
        }
        self.words = words
    }
}

/// What is made of an original's bytes.
enum Form: Hashable, Sendable {
    /// Nothing: the bytes themselves.
    case original
    /// Pixels, so transformed.
    case pixels(Transform)

    init(_ options: GetOptions, scaleDownLimit: Int) {
        self =
            options.representation == .original
            ? .original : .pixels(options.variant.transform(scaleDownLimit: scaleDownLimit))
    }

    /// The form as a word, by which the disk tier knows a raster; nil for what it does not keep: the original, and
    /// pixels of full size, which are made from it about as fast as they are read.
    var rasterWord: String? {
        guard case .pixels(let transform) = self, transform.isScaling else { return nil }
        return transform.canonical + "-" + Self.decoderVersion
    }

    /// Changes whenever the decode worker makes other pixels of the same bytes.
    static let decoderVersion = "1"
}

/// What makes two requests want the same result: the same bytes, made into the same form.
struct VariantKey: Hashable, Sendable {
    let digest: ContentDigest
    let form: Form
}
