import Digests
import HTTPValues
import IPCProtocol

/// The identity of an original: two requests with different keys never share a result, in flight or cached.
struct OriginalKey: Hashable, Sendable {
    /// The URL. With a `cacheKey`, one of the URLs that were loaded under it; it does not count for equality then.
    private(set) var url: SourceURL
    /// The client's own name for the original, which counts instead of the URL.
    @Rare private(set) var cacheKey: String?
    /// A digest of the request headers, which may be long; nil for none.
    @Rare private(set) var headers: ContentDigest?
    /// A digest of the credentials, so that the index keeps no password.
    @Rare private(set) var credentials: String?
    /// Whether the request sends the user's cookies.
    let cookies: Bool
    /// Whether the server's certificate is not verified.
    let allowInvalidCertificates: Bool
    /// The user to whom the original belongs, because it was loaded with the user's rights; nil for all users.
    private(set) var owner: UInt32?
    /// Not 0 for an original that no request can ask for: uploaded bytes that are not validated yet.
    private(set) var nonce = 0

    /// Returns the same original as loaded from another URL.
    func loaded(from url: SourceURL) -> OriginalKey {
        var key = self
        key.url = url
        return key
    }

    /// Returns the same original as `uid`'s own; with nil, as shared by all users.
    func owned(by uid: UInt32?) -> OriginalKey {
        var key = self
        key.owner = uid
        return key
    }

    /// Returns the same original under a key that no request has.
    func hidden(as nonce: Int) -> OriginalKey {
        var key = self
        key.nonce = nonce
        return key
    }

    static func == (left: OriginalKey, right: OriginalKey) -> Bool {
        // Texts byte by byte, because different bytes may be canonically equivalent Unicode.
        left.owner == right.owner && left.nonce == right.nonce && left.cacheKey.hasSameBytes(as: right.cacheKey)
            && left.headers == right.headers && left.credentials == right.credentials
            && left.cookies == right.cookies && left.allowInvalidCertificates == right.allowInvalidCertificates
            && (left.cacheKey != nil || left.url == right.url)
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(cacheKey ?? url.text)
        hasher.combine(owner)
        if let headers { hasher.combine(headers) }
    }

    /// Whether the original may be shared with other brokers: it does not depend on who asks.
    var isShareable: Bool {
        owner == nil && nonce == 0 && cacheKey == nil && credentials == nil && !cookies && !allowInvalidCertificates
            && !url.isFile
    }

    var textBytes: Int { url.text.utf8.count + (cacheKey?.utf8.count ?? 0) }

    /// The digest that stands for a file's contents.
    var fileDigest: ContentDigest { SHA256.digest(of: url.text) }

    /// The key of the disk tier: 64 hexadecimal digits.
    var word: String { digest.hexadecimal }

    /// A digest of the key, where the key itself is not needed.
    var digest: ContentDigest {
        // No line contains a line break.
        var lines = cacheKey.map { "key " + $0 } ?? url.text
        if let headers { lines += "\nheaders " + headers.hexadecimal }
        lines += "\ncredentials "
        lines += credentials ?? "none"
        lines += "\nowner "
        lines += owner.map { String($0) } ?? "all"
        if cookies { lines += "\ncookies" }
        if allowInvalidCertificates { lines += "\nany certificate" }
        return SHA256.digest(of: lines)
    }
}

extension OriginalKey {
    init(_ request: GetRequest, uid: UInt32) {
        let options = request.options
        // No name contains a colon, and no line a line break, so the text is unambiguous.
        let lines = options.headers.map { "\($0.name): \($0.value)" }
        let headers = lines.isEmpty ? nil : SHA256.digest(of: lines.joined(separator: "\n"))
        let credentials = options.credentials.map {
            // A user name contains no colon, so the text is unambiguous.
            SHA256.digest(of: "\($0.username):\($0.password)").hexadecimal
        }
        let isPersonal =
            credentials != nil || options.cookies || options.cacheKey != nil
            || options.headers.contains { RequestHeaders.personal.contains($0.name) }
        self.init(
            url: request.url, cacheKey: options.cacheKey, headers: headers,
            credentials: credentials, cookies: options.cookies,
            allowInvalidCertificates: options.allowInvalidCertificates, owner: isPersonal ? uid : nil)
    }
}

/// The form of a variant: the original's bytes, their pixels, or those encoded again.
enum Form: Hashable, Sendable {
    /// The original bytes themselves.
    case original
    /// The transformed raster.
    case pixels(Transform)
    /// The transformed raster, encoded again.
    case encoded(Transform, Encoding)
    /// The description by the header, and these metadata blocks.
    case header(MetadataKinds)

    init(_ options: GetOptions, scaleDownLimit: Int) {
        var transform = options.variant.transform(scaleDownLimit: scaleDownLimit)
        transform.acceptsDamage = options.damaged == .accept
        transform = Transform(transform, preview: options.embedded == .fast, metadata: options.metadata)
        if options.delivery == .header {
            self = .header(options.metadata)
        } else if options.representation == .original {
            self = .original
        } else if let format = options.representation.format {
            // A preset may have a range of frames, of which an encoded image has the first.
            if transform.frames.isRange { transform.frames = .one(transform.frames.first) }
            // An encoded file defines its own pixel format.
            (transform.pixelFormat, transform.alpha, transform.background) = (.rgba8, .straight, .white)
            self = .encoded(transform, Encoding(format, quality: options.quality))
        } else {
            self = .pixels(transform)
        }
    }

    var transform: Transform? {
        switch self {
        case .original, .header: nil
        case .pixels(let transform), .encoded(let transform, _): transform
        }
    }

    var encoding: Encoding? { if case .encoded(_, let encoding) = self { encoding } else { nil } }

    /// Whether as much as possible of a damaged image is decoded.
    var acceptsDamage: Bool { transform?.acceptsDamage ?? false }

    /// The form of images without damage, whether or not damage is accepted.
    var ofSound: Form {
        guard var transform, transform.acceptsDamage else { return self }
        transform.acceptsDamage = false
        return encoding.map { .encoded(transform, $0) } ?? .pixels(transform)
    }

    /// The form of the image itself, whether or not a preview in the file would do.
    var ofImage: Form {
        guard var transform, transform.prefersPreview else { return self }
        transform.prefersPreview = false
        return encoding.map { .encoded(transform, $0) } ?? .pixels(transform)
    }

    /// Whether a preview in the file may be decoded instead of the image.
    var prefersPreview: Bool { transform?.prefersPreview ?? false }

    var metadata: MetadataKinds {
        if case .header(let kinds) = self { return kinds }
        return transform?.metadata ?? []
    }

    var isHeader: Bool { if case .header = self { true } else { false } }

    func bytes(of geometry: PixelGeometry) -> Int { geometry.bytes(in: transform?.pixelFormat ?? .rgba8) }

    /// Whether it has frames other than the first. A failure then says nothing about other forms.
    var isOfOtherFrames: Bool { transform.map { $0.frames != .one(0) } ?? false }

    /// The raster key of the disk tier. Nil for forms that it does not save: the original, several frames of an
    /// animation, previews, forms with metadata, and rasters of full size, which are decoded about as fast as they are
    /// read. Rasters of a private original are its owner's.
    func rasterWord(of owner: UInt32?) -> String? {
        if prefersPreview || !metadata.isEmpty { return nil }
        let suffix = owner.map { "\(Self.decoderVersion)-of-\($0)" } ?? Self.decoderVersion
        return switch self {
        case .pixels(let transform) where transform.isDerived && !transform.frames.hasTiming:
            "\(transform.canonical)-\(suffix)"
        case .encoded(let transform, let encoding): "\(transform.canonical)-\(encoding.canonical)-\(suffix)"
        case .original, .pixels, .header: nil
        }
    }

    /// Changes whenever the decode worker makes different pixels from the same bytes.
    static let decoderVersion = "5"
}

/// The identity of an original's bytes, for all that is made of them. The bytes of a private original are its owner's:
/// the same bytes of another user are another content, because sharing their results would show that the other has
/// them.
struct ContentKey: Hashable, Sendable {
    let digest: ContentDigest
    /// The user to whom the original belongs; nil for all users.
    let owner: UInt32?
    /// The layout of stored pixels; nil for encoded bytes. The same bytes in another layout are another image.
    @Rare var pixels: StoredPixels? = nil
}

/// The identity of a result: an original's bytes in a form.
struct VariantKey: Hashable, Sendable {
    let content: ContentKey
    let form: Form

    /// Whether the original itself is found under this key: stored pixels in their own form.
    var isOriginal: Bool {
        guard let pixels = content.pixels, case .pixels(let transform) = form else { return false }
        return pixels.areResult(of: transform)
    }

    /// The name by which `Admission` finds it again. Variants of one size share it.
    var nameInSample: Int {
        let words = content.digest.words
        var name = words[0] ^ words[1] ^ words[2] ^ words[3]
        if let transform = form.transform {
            name ^= UInt64(transform.width ?? 0) << 32 | UInt64(transform.height ?? 0)
        }
        return Int(truncatingIfNeeded: (name &* 0x9E37_79B9_7F4A_7C15) >> 20)
    }

    /// The variant without damage.
    var ofSound: VariantKey { form.acceptsDamage ? VariantKey(content: content, form: form.ofSound) : self }
    /// The variant made of the image itself.
    var ofImage: VariantKey { form.prefersPreview ? VariantKey(content: content, form: form.ofImage) : self }
}
