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
        /// The origin; the answer is cached.
        case reload
        /// What is cached, else `not-cached`.
        case onlyIfCached = "only-if-cached"
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

        /// Full-size pixels in the form given.
        public init(pixelFormat: PixelFormat = .rgba8, alpha: AlphaMode = .premultiplied) {
            self.pixelFormat = pixelFormat
            self.alpha = alpha
        }

        /// What is to be made of the pixels, by a broker with this limit on what is scaled down.
        public func transform(scaleDownLimit: Int) -> Transform {
            Transform(
                width: width, height: height, fit: fit, byteLimit: scaleDown ? scaleDownLimit : nil,
                pixelFormat: pixelFormat, alpha: alpha)
        }
    }

    /// Pixels or bytes.
    public var representation = Representation.pixels
    /// The form of the pixels.
    public var variant = Variant()
    /// How the result comes.
    public var delivery = Delivery.fd
    /// What the cache may answer.
    public var cache = CacheMode.default
    /// The place in the queue.
    public var priority = Priority.normal
    /// Whether `progress` frames are wanted.
    public var progress = false
    /// Milliseconds without a byte, connecting included, before `timeout`.
    public var timeoutMs = 15_000
    /// Milliseconds for everything, the queue included, before `timeout`.
    public var totalTimeoutMs = 60_000
    /// Extra request headers: names in lower case, sorted, no name twice.
    public var headers: [HeaderField] = []
    /// Basic credentials for the URL's host.
    public var credentials: Credentials?

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
            case "url":
                guard let text = try reader.string(name) else { break }
                do throws(WireError) { url = try SourceURL(text) } catch { rejection = rejection ?? error }
            case "as": options.representation = try reader.choice(name) ?? .pixels
            case "variant": options.variant = try GetOptions.Variant(from: &reader, field: name)
            case "delivery": options.delivery = try reader.choice(name) ?? .fd
            case "cache": options.cache = try reader.choice(name) ?? .default
            case "priority": options.priority = try reader.choice(name) ?? .normal
            case "progress": options.progress = try reader.boolean(name) ?? false
            case "timeoutMs":
                options.timeoutMs = try reader.integer(name, in: 1...Self.longestTimeoutMs) ?? 1
            case "totalTimeoutMs":
                options.totalTimeoutMs = try reader.integer(name, in: 1...Self.longestTimeoutMs) ?? 1
            case "headers": options.headers = try RequestHeaders.read(from: &reader, field: name)
            case "credentials": options.credentials = try Credentials(from: &reader, field: name)
            case "retryFailed": _ = try reader.boolean(name)
            // What is not built yet is accepted with the value that changes nothing.
            case "staleFirst", "progressive", "cookies", "allowInvalidCertificates": try reader.only(name, false)
            case "storage": try reader.only(name, "both")
            case "quality": try reader.only(name, 85)
            case "cacheKey": reader.note(name, expected: "absent: it is not supported yet"); try reader.skip()
            default: try reader.skip()
            }
        }
        guard let url else {
            if rejection == nil { reader.note("url", expected: "an http or https URL") }
            return nil
        }
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
    /// Writes the fields that differ from their defaults.
    fileprivate func writeMembers(to writer: inout JSONWriter) {
        let defaults = GetOptions()
        if representation != defaults.representation { writer.member("as", representation.rawValue) }
        if variant != defaults.variant {
            writer.object("variant") {
                $0.member("width", variant.width)
                $0.member("height", variant.height)
                if variant.fit != .inside { $0.member("fit", variant.fit.rawValue) }
                if variant.scaleDown { $0.member("scaleDown", true) }
                $0.member("pixelFormat", variant.pixelFormat.rawValue)
                $0.member("alpha", variant.alpha.rawValue)
            }
        }
        if delivery != defaults.delivery { writer.member("delivery", delivery.rawValue) }
        if cache != defaults.cache { writer.member("cache", cache.rawValue) }
        if priority != defaults.priority { writer.member("priority", priority.rawValue) }
        if progress { writer.member("progress", true) }
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
            case "frame": try reader.only("variant.frame", 0)
            default: try reader.skip()
            }
        }
    }
}

extension JSONReader {
    /// Reads member `field`, whose only value so far is `value`.
    fileprivate mutating func only(_ field: String, _ value: Bool) throws(MalformedJSON) {
        if let read = try boolean(field), read != value {
            note(field, expected: "\(value): nothing else is supported yet")
        }
    }

    fileprivate mutating func only(_ field: String, _ value: Int) throws(MalformedJSON) {
        if let read = try integer(field, in: 0...Int.max), read != value {
            note(field, expected: "\(value): nothing else is supported yet")
        }
    }

    fileprivate mutating func only(_ field: String, _ value: String) throws(MalformedJSON) {
        if let read = try string(field), read != value {
            note(field, expected: "\"\(value)\": nothing else is supported yet")
        }
    }
}
