public import HTTPValues
package import JSONCoding

/// A `get`: requests an image.
public struct GetRequest: Equatable, Sendable {
    /// The request's id, unique among the client's pending requests.
    public var id: Int
    /// The URL of the image; meaningless for a local file.
    public var url: SourceURL
    /// The local file to load instead of a URL. Its descriptor comes with the message.
    public var file: LocalFile?
    /// The options.
    public var options: GetOptions

    /// Creates a request for the image at `url`.
    public init(id: Int, url: SourceURL, options: GetOptions = GetOptions()) {
        self.id = id
        self.url = url
        self.options = options
    }

    /// Creates a request for the image in a local file, whose descriptor is sent with the message.
    public init(id: Int, file: LocalFile, options: GetOptions = GetOptions()) {
        self.init(id: id, url: .blank, options: options)
        self.file = file
    }
}

/// The fields of a `get` except its URL, with their default values.
public struct GetOptions: Equatable, Sendable {
    /// The requested form of the image.
    public enum Representation: String, CaseIterable, Sendable {
        /// Decoded pixels.
        case pixels
        /// The original as received.
        case original
        /// The image, encoded again.
        case png, jpeg, webp

        /// The format to encode in; nil for pixels and originals.
        package var format: Encoding.Format? { Encoding.Format(rawValue: rawValue) }
    }

    /// The way in which the result reaches the client.
    public enum Delivery: String, CaseIterable, Sendable {
        /// As a sealed memfd.
        case fd
        /// As a payload that follows the frame.
        case inline
        /// Not delivered: the image is loaded into the cache and described.
        case none
        /// Not decoded: the image is described by its header.
        case header
    }

    /// The permitted use of the cache, named as the request cache modes of the WHATWG Fetch standard.
    public enum CacheMode: String, CaseIterable, Sendable {
        /// A fresh cached response, else the origin.
        case `default`
        /// A cached response after the origin has confirmed it, else the origin.
        case noCache = "no-cache"
        /// The origin; the response is cached.
        case reload
        /// A cached response of any age, else the origin.
        case forceCache = "force-cache"
        /// A cached response of any age, else `not-cached`.
        case onlyIfCached = "only-if-cached"
        /// The origin; the response is not cached.
        case noStore = "no-store"
    }

    /// The tiers that may keep a result.
    public enum Storage: String, CaseIterable, Sendable {
        case both, memory, disk, none

        /// Whether the result may be kept in memory.
        public var includesMemory: Bool { self == .both || self == .memory }
        /// Whether the result may be kept in the disk tier.
        public var includesDisk: Bool { self == .both || self == .disk }
    }

    /// The priority in the queue.
    public enum Priority: String, CaseIterable, Comparable, Sendable {
        case low, normal, high

        public static func < (left: Priority, right: Priority) -> Bool {
            left != right && (left == .low || right == .high)
        }
    }

    /// The treatment of images that are damaged.
    public enum Damage: String, CaseIterable, Sendable {
        /// An error.
        case refuse
        /// As much as possible is decoded.
        case accept
    }

    /// The use of previews that files contain.
    public enum Embedded: String, CaseIterable, Sendable {
        /// The image itself is decoded.
        case off
        /// A preview at least as large as the result is decoded instead.
        case fast
    }

    /// The size and form of the pixels.
    public struct Variant: Hashable, Sendable {
        /// The box's width in pixels.
        public var width: Int?
        /// The box's height in pixels.
        public var height: Int?
        /// The way to fit the image into the box.
        public var fit = Transform.Fit.inside
        /// Whether a result above the broker's scale-down limit is scaled down.
        public var scaleDown = false
        /// The bytes of a pixel.
        public var pixelFormat: PixelFormat
        /// The relation of the colour channels to alpha; without effect on formats that have none.
        public var alpha: AlphaMode
        /// The opaque colour under pixels of a format without alpha.
        public var background = Color.white
        /// The requested frames of an animation.
        public var frames = FrameSelection.one(0)
        /// Whether scaling filters linear light instead of sRGB values.
        public var linear = false
        /// The part of the source to use; nil for all of it.
        public var crop: Crop? {
            get { edits?.crop }
            set { edits = Edits(crop: newValue, steps: steps, position: position) }
        }
        /// The steps that follow scaling, at most `Step.most`.
        public var steps: [Step] {
            get { edits?.steps ?? [] }
            set { edits = Edits(crop: crop, steps: newValue, position: position) }
        }
        /// The part that `cover` keeps, and the place of the image on the canvas of a `pad` step; nil for the middle.
        public var position: Position? {
            get { edits?.position }
            set { edits = Edits(crop: crop, steps: steps, position: newValue) }
        }
        var edits: Edits?

        /// Creates a full-size variant in the given form.
        public init(pixelFormat: PixelFormat = .rgba8, alpha: AlphaMode = .premultiplied) {
            self.pixelFormat = pixelFormat
            self.alpha = alpha
        }

        /// Returns the transform for a broker with this scale-down limit, in bytes.
        package func transform(scaleDownLimit: Int) -> Transform {
            Transform(
                width: width, height: height, fit: fit, byteLimit: scaleDown ? scaleDownLimit : nil,
                pixelFormat: pixelFormat, alpha: alpha, background: background, frames: frames, isLight: linear,
                edits: edits)
        }
    }

    /// The requested form: pixels, the original or an encoded image.
    public var representation = Representation.pixels
    /// The quality of lossy encodings, 1 … 100.
    public var quality = Encoding.usualQuality
    /// The size and form of the pixels.
    public var variant = Variant()
    /// The name of a variant in the broker's configuration, which takes the place of `variant`; nil for none.
    public var preset: String?
    /// The treatment of an image that is damaged.
    public var damaged = Damage.refuse
    /// Whether a preview in the file may be decoded instead of the image.
    public var embedded = Embedded.off
    /// The metadata blocks that follow the image.
    public var metadata: MetadataKinds = []
    /// The way in which the result is delivered.
    public var delivery = Delivery.fd
    /// The permitted use of the cache.
    public var cache = CacheMode.default
    /// Whether, with `no-cache`, the cached image is sent at once, before the origin's answer.
    public var staleFirst = false
    /// The tiers that may keep the result.
    public var storage = Storage.both
    /// The priority in the queue.
    public var priority = Priority.normal
    /// Whether to retry although the URL is among the recent failures (the wire's failed list).
    public var retryFailed = false
    /// Whether `progress` frames are sent.
    public var progress = false
    /// Whether partial images are sent, too.
    public var progressive = false
    /// The time without a received byte, connecting included, before `timeout`, in milliseconds.
    public var timeoutMs = 15_000
    /// The total time, queueing included, before `timeout`, in milliseconds.
    public var totalTimeoutMs = 60_000
    /// Extra request headers: lower-case names, sorted, without duplicates.
    public var headers: [HeaderField] = []
    /// Basic credentials for the URL's host.
    public var credentials: Credentials?
    /// Whether the requesting user's cookies are sent.
    public var cookies = false
    /// The name that identifies the original instead of its URL; 1 to 1,024 bytes without control characters.
    public var cacheKey: String?
    /// Whether servers with unverifiable certificates are accepted.
    public var allowInvalidCertificates = false

    /// Whether the reply states where the time went.
    public var trace = false

    /// The maximum age in seconds of a cached response that answers the request, as `max-age` of a request (RFC 9111,
    /// section 5.2.1.1); nil: as its origin permits.
    public var maxAgeSeconds: Int? {
        get { terms?.maxAgeSeconds }
        set { terms = RequestTerms(maxAgeSeconds: newValue, retries: retries, alternatives: alternatives) }
    }
    /// The maximum number of retries of a failed transfer, 0 … 100, at most those of the broker; nil for these.
    public var retries: Int? {
        get { terms?.retries }
        set { terms = RequestTerms(maxAgeSeconds: maxAgeSeconds, retries: newValue, alternatives: alternatives) }
    }
    /// The URLs to load instead, at most 4, each when the one before fails.
    public var alternatives: [SourceURL] {
        get { terms?.alternatives ?? [] }
        set { terms = RequestTerms(maxAgeSeconds: maxAgeSeconds, retries: retries, alternatives: newValue) }
    }
    /// The fields that let the request end sooner; nil for none.
    package var terms: RequestTerms?

    /// Creates the default options.
    public init() {}

    /// The maximum length of a `cacheKey`, in bytes.
    static let longestCacheKey = 1024
    /// The maximum length of a preset's name, in bytes.
    package static let longestPreset = 64

    /// The fields, of which those that equal `usual` are not written.
    mutating func list(_ fields: inout Fields, usual: GetOptions) {
        let timeouts = 1...GetRequest.longestTimeoutMs
        fields.choice("as", &representation, omitting: usual.representation)
        fields.integer("quality", &quality, in: 1...100, omitting: usual.quality)
        if fields.isReading || variant != usual.variant { fields.object("variant", .optional) { variant.list(&$0) } }
        fields.string("preset", &preset, most: Self.longestPreset)
        fields.choice("damaged", &damaged, omitting: usual.damaged)
        fields.choice("embedded", &embedded, omitting: usual.embedded)
        fields.metadataKinds("metadata", &metadata)
        fields.choice("delivery", &delivery, omitting: usual.delivery)
        fields.choice("cache", &cache, omitting: usual.cache)
        fields.flag("staleFirst", &staleFirst)
        fields.choice("storage", &storage, omitting: usual.storage)
        fields.flag("retryFailed", &retryFailed)
        fields.choice("priority", &priority, omitting: usual.priority)
        fields.flag("progress", &progress)
        fields.flag("progressive", &progressive)
        fields.integer("timeoutMs", &timeoutMs, in: timeouts, omitting: usual.timeoutMs)
        fields.integer("totalTimeoutMs", &totalTimeoutMs, in: timeouts, omitting: usual.totalTimeoutMs)
        RequestHeaders.list("headers", &headers, &fields)
        fields.object("credentials", &credentials)
        fields.flag("cookies", &cookies)
        fields.string("cacheKey", &cacheKey, most: Self.longestCacheKey)
        fields.flag("allowInvalidCertificates", &allowInvalidCertificates)
        fields.flag("trace", &trace)
        fields.terms(&terms)
        if fields.isReading {
            noteContradictions(in: &fields)
            if preset != nil, fields.has("variant") {
                fields.note("variant", expected: "absent: the preset has its own")
            }
        }
    }

    /// The fields that only a request for a URL can have.
    private static let fieldsOfURLs: [StaticString] = [
        "headers", "credentials", "cookies", "cacheKey", "allowInvalidCertificates", "staleFirst", "timeoutMs",
        "maxAgeSeconds", "retries", "alternatives",
    ]
    /// The cache modes of a request for a local file.
    private static let cacheModesOfFiles: [CacheMode] = [.default, .reload, .onlyIfCached, .noStore]

    /// Notes what a request for a local file must not have.
    func noteFieldsOfURLs(in fields: inout Fields) {
        for name in Self.fieldsOfURLs where fields.has(name) {
            fields.note("\(name)", expected: "absent: it is for URLs only")
        }
        if !Self.cacheModesOfFiles.contains(cache) {
            let modes = Self.cacheModesOfFiles.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
            fields.note("cache", expected: "one of \(modes) for a file")
        }
    }

    private func noteContradictions(in fields: inout Fields) {
        if let cacheKey, cacheKey.isEmpty || cacheKey.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) {
            fields.note("cacheKey", expected: "1 to \(Self.longestCacheKey) bytes without control characters")
        }
        if cacheKey != nil, !alternatives.isEmpty {
            fields.note("alternatives", expected: "absent with a cacheKey: it names one original")
        }
        if !metadata.isEmpty, representation == .original, delivery != .header {
            fields.note("metadata", expected: "absent: an original contains its own")
        }
        if preset != nil, representation == .original {
            fields.note("preset", expected: "absent: an original has no variant")
        }
        if variant.frames == .all, let format = representation.format, format != .webp {
            fields.note("variant.frame", expected: "an index: all frames are for pixels and webp")
        }
        if variant.frames.isRange, [.entropy, .attention].contains(variant.position) {
            fields.note("variant.position", expected: "a point: parts of an animation would have different ones")
        }
        if variant.frames.isRange, representation != .pixels {
            fields.note("variant.frames", expected: "absent: a range of frames is for pixels")
        }
    }
}

extension GetRequest: FieldList {
    static let longestTimeoutMs = 24 * 3600 * 1000

    package static var blank: GetRequest { GetRequest(id: 0, url: .blank) }

    package mutating func list(_ fields: inout Fields) {
        fields.id(&id)
        fields.source(&url, &file)
        options.list(&fields, usual: GetOptions())
        if fields.isReading, file != nil { options.noteFieldsOfURLs(in: &fields) }
    }
}

extension GetOptions.Variant: FieldList {
    package static var blank: GetOptions.Variant { GetOptions.Variant() }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("width", &width, in: 1...PixelGeometry.maximumSide)
        fields.integer("height", &height, in: 1...PixelGeometry.maximumSide)
        fields.choice("fit", &fit, omitting: .inside)
        fields.flag("scaleDown", &scaleDown)
        fields.choice("pixelFormat", &pixelFormat, omitting: .rgba8)
        fields.choice("alpha", &alpha, omitting: .premultiplied)
        if fields.isReading, alpha == .opaque { fields.note("alpha", expected: "premultiplied or straight") }
        if fields.isReading || background != .white {
            fields.color("background", &background, isOpaque: true, .optional)
        }
        fields.flag("linear", &linear)
        fields.frames("frame", &frames, omitting: .one(0))
        fields.edits(&edits)
        if fields.isReading, let edits, let position = edits.position, fit != .cover {
            if !edits.pads {
                fields.note("position", expected: "absent without the fit \"cover\" or a step \"pad\"")
            } else if position.focus == nil {
                fields.note("position", expected: "a focal point without the fit \"cover\"")
            }
        }
    }
}
