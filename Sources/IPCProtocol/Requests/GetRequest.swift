public import HTTPValues
internal import JSONCoding

/// A `get`: requests an image.
public struct GetRequest: Equatable, Sendable {
    /// The request's id, unique among the client's pending requests.
    public var id: Int
    /// The URL of the image.
    public var url: SourceURL
    /// The options.
    public var options: GetOptions

    /// Creates a request for the image at `url`.
    public init(id: Int, url: SourceURL, options: GetOptions = GetOptions()) {
        self.id = id
        self.url = url
        self.options = options
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
            left.rank < right.rank
        }

        private var rank: Int {
            switch self {
            case .low: 0
            case .normal: 1
            case .high: 2
            }
        }
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
        /// The order of a pixel's bytes.
        public var pixelFormat: PixelFormat
        /// The relation of the colour channels to alpha.
        public var alpha: AlphaMode
        /// The requested frames of an animation.
        public var frames = FrameSelection.one(0)
        /// Whether scaling filters linear light instead of sRGB values.
        public var linear = false

        /// Creates a full-size variant in the given form.
        public init(pixelFormat: PixelFormat = .rgba8, alpha: AlphaMode = .premultiplied) {
            self.pixelFormat = pixelFormat
            self.alpha = alpha
        }

        /// Returns the transform for a broker with this scale-down limit, in bytes.
        package func transform(scaleDownLimit: Int) -> Transform {
            Transform(
                width: width, height: height, fit: fit, byteLimit: scaleDown ? scaleDownLimit : nil,
                pixelFormat: pixelFormat, alpha: alpha, frames: frames, isLight: linear)
        }
    }

    /// The requested form: pixels, the original or an encoded image.
    public var representation = Representation.pixels
    /// The quality of lossy encodings, 1 … 100.
    public var quality = Encoding.usualQuality
    /// The size and form of the pixels.
    public var variant = Variant()
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
    /// The name that identifies the original instead of its URL; 1 to 1,024 bytes.
    public var cacheKey: String?
    /// Whether servers with unverifiable certificates are accepted.
    public var allowInvalidCertificates = false

    /// Creates the default options.
    public init() {}
}

extension GetRequest {
    static let longestTimeoutMs = 24 * 3600 * 1000

    /// Reads the members that `get` and `query` share; nil when the URL is missing or a member is invalid. `rejection`
    /// or the reader's `problem` then has the reason.
    init?(id: Int, from reader: inout JSONReader, rejection: inout WireError?) throws(JSONReader.MalformedJSON) {
        var url: SourceURL?
        var options = GetOptions()
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "url": url = try SourceURL.read(name, from: &reader, rejection: &rejection)
            default: if try !options.readMember(name, from: &reader) { try reader.skip() }
            }
        }
        guard let url else {
            if rejection == nil { reader.note("url", expected: "an http or https URL") }
            return nil
        }
        options.noteContradictions(in: &reader)
        if rejection != nil || reader.problem != nil { return nil }
        self.init(id: id, url: url, options: options)
    }

    /// Writes the members of a `get`.
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("url", url.text)
        options.writeMembers(to: &writer)
    }
}

extension GetOptions {
    /// The maximum length of a `cacheKey`, in bytes.
    static let longestCacheKey = 1024

    /// Reads the member `name`; returns false when it is not an option.
    mutating func readMember(
        _ name: String, from reader: inout JSONReader
    ) throws(JSONReader.MalformedJSON) -> Bool {
        switch name {
        case "as": representation = try reader.choice(name) ?? .pixels
        case "variant": variant = try Variant(from: &reader, field: name)
        case "delivery": delivery = try reader.choice(name) ?? .fd
        case "cache": cache = try reader.choice(name) ?? .default
        case "staleFirst": staleFirst = try reader.boolean(name) ?? false
        case "storage": storage = try reader.choice(name) ?? .both
        case "priority": priority = try reader.choice(name) ?? .normal
        case "retryFailed": retryFailed = try reader.boolean(name) ?? false
        case "progress": progress = try reader.boolean(name) ?? false
        case "timeoutMs": timeoutMs = try reader.integer(name, in: 1...GetRequest.longestTimeoutMs) ?? 1
        case "totalTimeoutMs": totalTimeoutMs = try reader.integer(name, in: 1...GetRequest.longestTimeoutMs) ?? 1
        case "headers": headers = try RequestHeaders.read(from: &reader, field: name)
        case "credentials": credentials = try Credentials(from: &reader, field: name)
        case "cookies": cookies = try reader.boolean(name) ?? false
        case "allowInvalidCertificates": allowInvalidCertificates = try reader.boolean(name) ?? false
        case "cacheKey":
            cacheKey = try reader.string(name)
            if let key = cacheKey, key.isEmpty || key.utf8.count > Self.longestCacheKey {
                reader.note(name, expected: "a string of 1 to \(Self.longestCacheKey) bytes")
            }
        case "progressive": progressive = try reader.boolean(name) ?? false
        case "quality": quality = try reader.integer(name, in: 1...100) ?? Encoding.usualQuality
        default: return false
        }
        return true
    }

    /// Notes options that contradict each other.
    func noteContradictions(in reader: inout JSONReader) {
        if variant.frames == .all, representation.format != nil {
            reader.note("variant.frame", expected: "an index: all frames are for pixels only")
        }
    }

    /// Writes the fields that differ from their defaults.
    func writeMembers(to writer: inout JSONWriter) {
        let defaults = GetOptions()
        if representation != defaults.representation { writer.member("as", representation.rawValue) }
        if quality != defaults.quality { writer.member("quality", quality) }
        if variant != defaults.variant {
            writer.object("variant") {
                $0.member("width", variant.width)
                $0.member("height", variant.height)
                if variant.fit != .inside { $0.member("fit", variant.fit.rawValue) }
                if variant.scaleDown { $0.member("scaleDown", true) }
                $0.member("pixelFormat", variant.pixelFormat.rawValue)
                $0.member("alpha", variant.alpha.rawValue)
                if variant.linear { $0.member("linear", true) }
                if variant.frames != .one(0) { variant.frames.write("frame", to: &$0) }
            }
        }
        if delivery != defaults.delivery { writer.member("delivery", delivery.rawValue) }
        if cache != defaults.cache { writer.member("cache", cache.rawValue) }
        if staleFirst { writer.member("staleFirst", true) }
        if storage != defaults.storage { writer.member("storage", storage.rawValue) }
        if retryFailed { writer.member("retryFailed", true) }
        if priority != defaults.priority { writer.member("priority", priority.rawValue) }
        if progress { writer.member("progress", true) }
        if progressive { writer.member("progressive", true) }
        if timeoutMs != defaults.timeoutMs { writer.member("timeoutMs", timeoutMs) }
        if totalTimeoutMs != defaults.totalTimeoutMs { writer.member("totalTimeoutMs", totalTimeoutMs) }
        if !headers.isEmpty {
            writer.object("headers") { for field in headers { $0.member(field.name, field.value) } }
        }
        if let credentials {
            writer.object("credentials") {
                $0.member("username", credentials.username)
                $0.member("password", credentials.password)
            }
        }
        if cookies { writer.member("cookies", true) }
        writer.member("cacheKey", cacheKey)
        if allowInvalidCertificates { writer.member("allowInvalidCertificates", true) }
    }
}

extension GetOptions.Variant {
    init(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        self.init()
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "pixelFormat": pixelFormat = try reader.choice("variant.pixelFormat") ?? .rgba8
            case "alpha": alpha = try reader.choice("variant.alpha") ?? .premultiplied
            case "scaleDown": scaleDown = try reader.boolean("variant.scaleDown") ?? false
            case "fit": fit = try reader.choice("variant.fit") ?? .inside
            case "width": width = try reader.integer("variant.width", in: 1...PixelGeometry.maximumSide)
            case "height": height = try reader.integer("variant.height", in: 1...PixelGeometry.maximumSide)
            case "linear": linear = try reader.boolean("variant.linear") ?? false
            case "frame": frames = try FrameSelection(from: &reader, field: "variant.frame") ?? .one(0)
            default: try reader.skip()
            }
        }
    }
}
