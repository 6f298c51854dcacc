public import HTTPValues
internal import JSONCoding

/// A `get`: what to load, and how.
public struct GetRequest: Equatable, Sendable {
    /// The request's name among the client's unanswered ones.
    public var id: Int
    /// What to load.
    public var url: SourceURL
    /// How.
    public var options: GetOptions

    /// A request for the picture at `url`.
    public init(id: Int, url: SourceURL, options: GetOptions = GetOptions()) {
        self.id = id
        self.url = url
        self.options = options
    }
}

/// The fields of a `get` but its URL, each with the value it has when it is left out.
public struct GetOptions: Equatable, Sendable {
    /// What the client wants of the original.
    public enum Representation: String, CaseIterable, Sendable {
        /// Decoded pixels.
        case pixels
        /// The bytes as received.
        case original
        /// The picture, encoded again.
        case png, jpeg, webp

        /// The format to encode in; nil for what is not encoded.
        package var format: Encoding.Format? { Encoding.Format(rawValue: rawValue) }
    }

    /// How the result reaches the client.
    public enum Delivery: String, CaseIterable, Sendable {
        /// As a sealed memfd.
        case fd
        /// As a payload behind the frame.
        case inline
        /// Not at all: it is loaded into the cache and described.
        case none
    }

    /// What the cache may answer, named as the request cache modes of the WHATWG Fetch standard.
    public enum CacheMode: String, CaseIterable, Sendable {
        /// What is cached and fresh, else the origin.
        case `default`
        /// What is cached once the origin has confirmed it, else the origin.
        case noCache = "no-cache"
        /// The origin; the answer is cached.
        case reload
        /// What is cached, however old, else the origin.
        case forceCache = "force-cache"
        /// What is cached, however old, else `not-cached`.
        case onlyIfCached = "only-if-cached"
        /// The origin; the answer is not cached.
        case noStore = "no-store"
    }

    /// The tiers that a result may enter.
    public enum Storage: String, CaseIterable, Sendable {
        case both, memory, disk, none

        /// Whether the result may stay in memory.
        public var includesMemory: Bool { self == .both || self == .memory }
        /// Whether the result may be kept on disk.
        public var includesDisk: Bool { self == .both || self == .disk }
    }

    /// The place in the queue.
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
        /// How the picture is brought into the box.
        public var fit = Transform.Fit.inside
        /// Whether a result above the broker's scale-down limit is made smaller.
        public var scaleDown = false
        /// The order of a pixel's bytes.
        public var pixelFormat: PixelFormat
        /// How colour is stored beside alpha.
        public var alpha: AlphaMode
        /// The frames of an animation that are wanted.
        public var frames = FrameSelection.one(0)
        /// Whether scaling mixes light instead of sRGB's values.
        public var linear = false

        /// Full-size pixels in the form given.
        public init(pixelFormat: PixelFormat = .rgba8, alpha: AlphaMode = .premultiplied) {
            self.pixelFormat = pixelFormat
            self.alpha = alpha
        }

        /// What is to be made of the pixels, by a broker with this limit on what is scaled down.
        package func transform(scaleDownLimit: Int) -> Transform {
            Transform(
                width: width, height: height, fit: fit, byteLimit: scaleDown ? scaleDownLimit : nil,
                pixelFormat: pixelFormat, alpha: alpha, frames: frames, isLight: linear)
        }
    }

    /// Pixels or bytes.
    public var representation = Representation.pixels
    /// 1 … 100, for what is encoded with losses.
    public var quality = Encoding.usualQuality
    /// The form of the pixels.
    public var variant = Variant()
    /// How the result comes.
    public var delivery = Delivery.fd
    /// What the cache may answer.
    public var cache = CacheMode.default
    /// With `no-cache`: what is cached at once, then what the origin says.
    public var staleFirst = false
    /// The tiers that the result may enter.
    public var storage = Storage.both
    /// The place in the queue.
    public var priority = Priority.normal
    /// Whether to try although the failed list advises against it.
    public var retryFailed = false
    /// Whether `progress` frames are wanted.
    public var progress = false
    /// Whether the picture is wanted as far as it has come, too.
    public var progressive = false
    /// Milliseconds without a byte, connecting included, before `timeout`.
    public var timeoutMs = 15_000
    /// Milliseconds for everything, the queue included, before `timeout`.
    public var totalTimeoutMs = 60_000
    /// Extra request headers: names in lower case, sorted, no name twice.
    public var headers: [HeaderField] = []
    /// Basic credentials for the URL's host.
    public var credentials: Credentials?
    /// Whether the asking user's cookies go with the request.
    public var cookies = false
    /// A name to know the original by instead of its URL; 1 to 1,024 bytes.
    public var cacheKey: String?
    /// Whether a server may be one whose certificate cannot be verified.
    public var allowInvalidCertificates = false

    /// The defaults.
    public init() {}
}

extension GetRequest {
    static let longestTimeoutMs = 24 * 3600 * 1000

    /// Reads what `get` and `query` have in common with it; nil when the URL is missing or something is wrong, and then
    /// `rejection` or the reader's `problem` says what.
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
    /// The longest `cacheKey`, in bytes.
    static let longestCacheKey = 1024

    /// Reads the member `name`; false when it is none of these.
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

    /// Notes what does not go together.
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
