internal import JSONCoding

/// A message from the broker to a client.
public enum Reply: Equatable, Sendable {
    /// Answers `hello`.
    case hello(id: Int, HelloReply)
    /// An image.
    case image(id: Int, ImageReply)
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
    /// An event for a subscriber.
    case event(id: Int, BrokerEvent)
    /// Answers `stats`.
    case stats(id: Int, StatsReport)
    /// Reports that a request failed; the id is nil when the message had no valid one.
    case error(id: Int?, WireError)

    /// Whether this is the last frame for the request.
    public var isTerminal: Bool {
        switch self {
        case .progress, .prefetched, .event: false
        case .image(_, let image): image.final
        default: true
        }
    }

    /// The id of the request that this answers.
    public var id: Int? {
        switch self {
        case .hello(let id, _), .image(let id, _), .progress(let id, _, _), .ok(let id), .queried(let id, _),
            .removed(let id, _), .stats(let id, _), .prefetched(let id, _, _, _), .cleared(let id, _, _),
            .failedEntries(let id, _), .event(let id, _):
            id
        case .error(let id, _): id
        }
    }

    /// Returns the reply as a frame, in the memory of `storage`.
    package func encoded(reusing storage: consuming [UInt8] = []) -> [UInt8] {
        Frame.encode(reusing: consume storage) { writer in
            switch self {
            case .hello(let id, let hello):
                Self.begin(&writer, "hello", id)
                hello.writeMembers(to: &writer)
            case .image(let id, let image):
                Self.begin(&writer, "image", id)
                image.writeMembers(to: &writer)
            case .progress(let id, let received, let expected):
                Self.begin(&writer, "progress", id)
                writer.member("received", received)
                if let expected { writer.member("expected", expected) } else { writer.null("expected") }
            case .ok(let id):
                Self.begin(&writer, "ok", id)
            case .queried(let id, let status):
                Self.begin(&writer, "ok", id)
                writer.member("memory", status.memory)
                writer.member("disk", status.disk)
                writer.member("fresh", status.fresh)
                status.placeholder?.writeMembers(to: &writer)
            case .removed(let id, let count):
                Self.begin(&writer, "ok", id)
                writer.member("removed", count)
            case .prefetched(let id, let done, let failed, let total):
                Self.begin(&writer, "progress", id)
                writer.member("done", done)
                writer.member("failed", failed)
                writer.member("total", total)
            case .cleared(let id, let removed, let bytes):
                Self.begin(&writer, "ok", id)
                writer.member("removed", removed)
                writer.member("bytes", bytes)
            case .failedEntries(let id, let entries):
                Self.begin(&writer, "ok", id)
                writer.array("entries", of: entries) {
                    $0.member("url", $1.url)
                    $0.member("code", $1.code.rawValue)
                    $0.member("expires", $1.expires)
                }
            case .event(let id, let event):
                Self.begin(&writer, "event", id)
                event.writeMembers(to: &writer)
            case .stats(let id, let report):
                Self.begin(&writer, "stats", id)
                writer.object("stats") { report.writeMembers(to: &$0) }
            case .error(let id, let error):
                writer.member("type", "error")
                if let id { writer.member("id", id) } else { writer.null("id") }
                error.write(to: &writer)
            }
        }
    }

    private static func begin(_ writer: inout JSONWriter, _ type: String, _ id: Int) {
        writer.member("type", type)
        writer.member("id", id)
    }

    /// Reads a reply from the JSON text of its frame.
    ///
    /// - Throws: `BadReply`.
    public init(decoding text: ArraySlice<UInt8>) throws(BadReply) {
        var reader = JSONReader(text)
        let reply: Reply?
        do {
            let envelope = try Envelope(text)
            reply = try Self.decode(envelope, text, &reader)
        } catch {
            throw BadReply(description: "no JSON: expected \(error.expected) at \(error.offset)")
        }
        if let problem = reader.problem { throw BadReply(description: "\(problem.field) is not \(problem.expected)") }
        guard let reply else { throw BadReply(description: "unknown or incomplete reply") }
        self = reply
    }

    private static func decode(
        _ envelope: Envelope, _ text: ArraySlice<UInt8>, _ reader: inout JSONReader
    ) throws(JSONReader.MalformedJSON) -> Reply? {
        if envelope.type == "error" { return .error(id: envelope.id, try WireError(from: &reader)) }
        guard let id = envelope.id else { return nil }
        switch envelope.type {
        case "hello": return .hello(id: id, try HelloReply(from: &reader))
        case "image": return try ImageReply(from: &reader).map { .image(id: id, $0) }
        case "stats":
            var report = StatsReport()
            try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
                if name == "stats" { report = try StatsReport(from: &reader, field: name) } else { try reader.skip() }
            }
            return .stats(id: id, report)
        case "event": return try BrokerEvent(from: &reader).map { .event(id: id, $0) }
        case "progress": return try decodeProgress(id: id, &reader)
        case "ok": return try decodeOK(id: id, &reader)
        default: return nil
        }
    }

    private static func decodeProgress(
        id: Int, _ reader: inout JSONReader
    ) throws(JSONReader.MalformedJSON) -> Reply? {
        var (received, expected, done, failed, total): (Int?, Int?, Int?, Int?, Int?)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "received": received = try reader.integer(name, in: 0...Int.max)
            case "expected" where !reader.nextIsNull: expected = try reader.integer(name, in: 0...Int.max)
            case "done": done = try reader.integer(name, in: 0...Int.max)
            case "failed": failed = try reader.integer(name, in: 0...Int.max)
            case "total": total = try reader.integer(name, in: 0...Int.max)
            default: try reader.skip()
            }
        }
        if let done, let failed, let total { return .prefetched(id: id, done: done, failed: failed, total: total) }
        return received.map { .progress(id: id, received: $0, expected: expected) }
    }

    private static func decodeOK(id: Int, _ reader: inout JSONReader) throws(JSONReader.MalformedJSON) -> Reply? {
        var (memory, disk, fresh, removed, bytes): (Bool?, Bool?, Bool?, Int?, Int?)
        var entries: [FailedEntry]?
        var (averageColor, thumbHash): (String?, String?)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "memory": memory = try reader.boolean(name)
            case "disk": disk = try reader.boolean(name)
            case "fresh": fresh = try reader.boolean(name)
            case "averageColor": averageColor = try reader.string(name)
            case "thumbHash": thumbHash = try reader.string(name)
            case "removed": removed = try reader.integer(name, in: 0...Int.max)
            case "bytes": bytes = try reader.integer(name, in: 0...Int.max)
            case "entries":
                entries = []
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    if let entry = try FailedEntry(from: &reader, field: name) { entries?.append(entry) }
                }
            default: try reader.skip()
            }
        }
        if let memory, let disk, let fresh {
            let placeholder = Placeholder(averageColor: averageColor, thumbHash: thumbHash)
            return .queried(id: id, CacheStatus(memory: memory, disk: disk, fresh: fresh, placeholder: placeholder))
        }
        if let entries { return .failedEntries(id: id, entries) }
        if let removed, let bytes { return .cleared(id: id, removed: removed, bytes: bytes) }
        if let removed { return .removed(id: id, count: removed) }
        return .ok(id: id)
    }
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
    /// Its limits by name: `maxFrameBytes`, `maxPixels` and others.
    public var limits: [String: Int]
    /// The number of slots of the accompanying validity page; nil when the page was not requested or does not exist.
    public var slots: Int?

    /// Creates a description with the broker's name, formats and limits.
    public init(server: String, formats: [String], limits: [String: Int]) {
        self.server = server
        self.formats = formats
        self.limits = limits
    }

    fileprivate func writeMembers(to writer: inout JSONWriter) {
        writer.member("protocol", ClientMessage.protocolVersion)
        writer.member("server", server)
        writer.array("formats", of: formats)
        writer.object("limits") {
            for (name, value) in limits.sorted(by: { $0.key < $1.key }) { $0.member(name, value) }
        }
        if let slots {
            writer.member("fds", 1)
            writer.member("slots", slots)
        }
    }

    fileprivate init(from reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        self.init(server: "", formats: [], limits: [:])
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "server": server = try reader.string(name) ?? ""
            case "formats":
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    if let format = try reader.string(name) { formats.append(format) }
                }
            case "limits":
                try reader.object(name) { (reader, name) throws(JSONReader.MalformedJSON) in
                    limits[name] = try reader.integer(name, in: 0...Int.max)
                }
            case "slots": slots = try reader.integer(name, in: 1...JSONReader.maximumInteger)
            default: try reader.skip()
            }
        }
    }
}

extension FailedEntry {
    fileprivate init?(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        var (url, code, expires): (String?, ErrorCode?, Int?)
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "url": url = try reader.string(name)
            case "code": code = try reader.choice(name)
            case "expires": expires = try reader.integer(name, in: 0...JSONReader.maximumInteger)
            default: try reader.skip()
            }
        }
        guard let url, let code, let expires else {
            reader.note(field, expected: "complete entries")
            return nil
        }
        self.init(url: url, code: code, expires: expires)
    }
}
