package import JSONCoding

/// A message from the broker to a client.
public enum Reply: Equatable, Sendable {
    /// Answers `hello`.
    case hello(id: Int, HelloReply)
    /// An image. It is stored elsewhere, because a reply is copied often.
    indirect case image(id: Int, ImageReply)
    /// The progress of a download, in bytes.
    case progress(id: Int, received: Int, expected: Int?)
    /// Reports the success of a request without another answer.
    case ok(id: Int)
    /// Answers `query`.
    case queried(id: Int, CacheStatus)
    /// Answers `remove`.
    case removed(id: Int, count: Int)
    /// The progress of a prefetch: the numbers of loaded URLs, of failed URLs and of all URLs.
    case prefetched(id: Int, done: Int, failed: Int, total: Int)
    /// Answers `clear`: the number of removed originals, and the removed bytes including variants.
    case cleared(id: Int, removed: Int, bytes: Int)
    /// Answers `failed` with the action `list`.
    case failedEntries(id: Int, [FailedEntry])
    /// Answers `reload`.
    case reloaded(id: Int, ReloadReport)
    /// An event for a subscriber.
    case event(id: Int, BrokerEvent)
    /// No further image will be in this segment.
    case segmentEnded(Int)
    /// Answers `stats`.
    case stats(id: Int, StatsReport)
    /// Reports that a request failed; the id is nil when the message had no valid one.
    case error(id: Int?, WireError)

    /// Whether this is the last frame for the request.
    public var isTerminal: Bool {
        switch self {
        case .progress, .prefetched, .event, .segmentEnded: false
        case .image(_, let image): image.final
        default: true
        }
    }

    /// The id of the request that this answers; nil of a message that answers none.
    public var id: Int? {
        switch self {
        case .hello(let id, _), .image(let id, _), .progress(let id, _, _), .ok(let id), .queried(let id, _),
            .removed(let id, _), .stats(let id, _), .prefetched(let id, _, _, _), .cleared(let id, _, _),
            .failedEntries(let id, _), .reloaded(let id, _), .event(let id, _):
            id
        case .error(let id, _): id
        case .segmentEnded: nil
        }
    }

    /// Returns the reply as a frame, in the memory of `storage`; an `error` in place of a reply that no frame can hold.
    package func encoded(reusing storage: consuming [UInt8] = []) -> [UInt8] {
        do {
            return try Frame.encode(reusing: consume storage) { fields in
                fields.constant("type", type)
                var copy = self
                copy.list(&fields)
            }
        } catch {
            return Reply.error(id: id, WireError(.internal, "The reply of \(error.length) bytes is too long."))
                .encoded()
        }
    }

    /// Reads a reply from the JSON text of its frame.
    ///
    /// - Throws: `BadReply`.
    public init(decoding text: ArraySlice<UInt8>) throws(BadReply) {
        var fields: Fields
        do {
            fields = try Fields(reading: text)
        } catch {
            throw BadReply(description: "no JSON: expected \(error.expected) at \(error.offset)")
        }
        var type = ""
        fields.string("type", &type)
        guard var reply = Self.blank(type, fields) else { throw BadReply(description: "unknown reply") }
        reply.list(&fields)
        if let problem = fields.problem { throw BadReply(description: "\(problem.field) is not \(problem.expected)") }
        self = reply
    }

    /// The message's type on the wire.
    private var type: String {
        switch self {
        case .hello: "hello"
        case .image: "image"
        case .progress, .prefetched: "progress"
        case .ok, .queried, .removed, .cleared, .failedEntries, .reloaded: "ok"
        case .event: "event"
        case .segmentEnded: "segmentEnded"
        case .stats: "stats"
        case .error: "error"
        }
    }

    /// The reply that reading of this type starts from; nil when the type is unknown. The answers of type `ok`, and the
    /// two of type `progress`, differ in their members.
    private static func blank(_ type: String, _ fields: Fields) -> Reply? {
        switch type {
        case "image": .image(id: 0, .blank)
        case "error": .error(id: nil, .blank)
        case "hello": .hello(id: 0, .blank)
        case "event": .event(id: 0, .blank)
        case "segmentEnded": .segmentEnded(0)
        case "stats": .stats(id: 0, .blank)
        case "progress" where fields.has("total"): .prefetched(id: 0, done: 0, failed: 0, total: 0)
        case "progress": .progress(id: 0, received: 0, expected: nil)
        case "ok" where fields.has("memory"): .queried(id: 0, .blank)
        case "ok" where fields.has("entries"): .failedEntries(id: 0, [])
        case "ok" where fields.has("changed"): .reloaded(id: 0, .blank)
        case "ok" where fields.has("bytes"): .cleared(id: 0, removed: 0, bytes: 0)
        case "ok" where fields.has("removed"): .removed(id: 0, count: 0)
        case "ok": .ok(id: 0)
        default: nil
        }
    }

    private mutating func list(_ fields: inout Fields) {
        switch self {
        case .hello(let id, let hello): self = .hello(id: fields.id(id), fields.members(of: hello))
        case .image(var id, var image):
            fields.id(&id)
            image.list(&fields)
            self = .image(id: id, image)
        case .progress(let id, let received, let expected):
            self = .progress(
                id: fields.id(id), received: fields.integer("received", received, in: 0...Int.max),
                expected: fields.value(expected) { $0.nullableInteger("expected", &$1, in: 0...Int.max) })
        case .ok(let id): self = .ok(id: fields.id(id))
        case .queried(let id, let status): self = .queried(id: fields.id(id), fields.members(of: status))
        case .removed(let id, let count):
            self = .removed(id: fields.id(id), count: fields.integer("removed", count, in: 0...Int.max))
        case .prefetched(let id, let done, let failed, let total):
            self = .prefetched(
                id: fields.id(id), done: fields.integer("done", done, in: 0...Int.max),
                failed: fields.integer("failed", failed, in: 0...Int.max),
                total: fields.integer("total", total, in: 0...Int.max))
        case .cleared(let id, let removed, let bytes):
            self = .cleared(
                id: fields.id(id), removed: fields.integer("removed", removed, in: 0...Int.max),
                bytes: fields.integer("bytes", bytes, in: 0...Int.max))
        case .failedEntries(let id, let entries):
            self = .failedEntries(id: fields.id(id), fields.objects("entries", entries))
        case .reloaded(let id, let report): self = .reloaded(id: fields.id(id), fields.members(of: report))
        case .event(let id, let event): self = .event(id: fields.id(id), fields.members(of: event))
        case .segmentEnded(var segment):
            var id: Int?
            fields.nullableInteger("id", &id, in: 0...JSONReader.maximumInteger)
            fields.integer("segment", &segment, in: 1...JSONReader.maximumInteger)
            self = .segmentEnded(segment)
        case .stats(let id, let report): self = .stats(id: fields.id(id), fields.object("stats", report))
        case .error(var id, var error):
            fields.nullableInteger("id", &id, in: 0...JSONReader.maximumInteger)
            error.list(&fields)
            self = .error(id: id, error)
        }
    }
}

extension Fields {
    /// The id of a request.
    mutating func id(_ value: inout Int) {
        integer("id", &value, in: 0...JSONReader.maximumInteger)
    }

    /// The id of a request, in the place of `value`.
    mutating func id(_ value: Int) -> Int { integer("id", value, in: 0...JSONReader.maximumInteger) }
}

/// The error for a reply that violates the protocol.
public struct BadReply: Error, CustomStringConvertible {
    /// A description of the violation.
    public let description: String
}

/// The cache state of an image.
public struct CacheStatus: Equatable, Sendable {
    /// Whether the variant is in memory.
    public var memory: Bool
    /// Whether the original is in the disk tier.
    public var disk: Bool
    /// Whether a request with the cache mode `default` would be answered without the origin.
    public var fresh: Bool
    /// The placeholder; nil when it is unknown.
    public var placeholder: Placeholder?

    /// Creates the state of one image.
    public init(memory: Bool, disk: Bool, fresh: Bool, placeholder: Placeholder? = nil) {
        self.memory = memory
        self.disk = disk
        self.fresh = fresh
        self.placeholder = placeholder
    }
}

/// The broker's description of itself.
public struct HelloReply: Equatable, Sendable {
    /// The server's name and version.
    public var server: String
    /// The formats that it decodes.
    public var formats: [String]
    /// The additions to the protocol that it has.
    public var features: [String] = []
    /// The names of its presets, sorted.
    public var presets: [String] = []
    /// Its limits by name: `maxFrameBytes`, `maxPixels` and others.
    public var limits: [String: Int]
    /// The number of slots of the accompanying validity page; nil when the page was not requested or does not exist.
    public var slots: Int?

    /// Creates a description with the broker's name, formats and limits.
    public init(server: String, formats: [String], limits: [String: Int], features: [String] = []) {
        self.server = server
        self.features = features
        self.formats = formats
        self.limits = limits
    }
}

extension CacheStatus: FieldList {
    package static var blank: CacheStatus { CacheStatus(memory: false, disk: false, fresh: false) }

    package mutating func list(_ fields: inout Fields) {
        fields.boolean("memory", &memory)
        fields.boolean("disk", &disk)
        fields.boolean("fresh", &fresh)
        fields.placeholder(&placeholder)
    }
}

extension HelloReply: FieldList {
    package static var blank: HelloReply { HelloReply(server: "", formats: [], limits: [:]) }

    package mutating func list(_ fields: inout Fields) {
        fields.constant("protocol", ClientMessage.protocolVersion)
        fields.string("server", &server, .optional)
        fields.strings("formats", &formats, .optional)
        fields.strings("features", orNone: &features)
        fields.strings("presets", orNone: &presets)
        fields.object("limits", .optional) { $0.counts(&limits) }
        if slots != nil { fields.constant("fds", 1) }
        fields.integer("slots", &slots, in: 1...JSONReader.maximumInteger)
    }
}

extension Fields {
    /// All members of an object of numbers, sorted by name.
    mutating func counts(_ values: inout [String: Int]) {
        for name in isReading ? names : values.keys.sorted() {
            var count = values[name] ?? 0
            integer(named: name, &count, in: 0...Int.max)
            values[name] = count
        }
    }
}

extension FailedEntry: FieldList {
    package static var blank: FailedEntry { FailedEntry(url: "", code: .internal, expires: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.string("url", &url)
        fields.choice("code", &code)
        fields.integer("expires", &expires, in: 0...JSONReader.maximumInteger)
    }
}
