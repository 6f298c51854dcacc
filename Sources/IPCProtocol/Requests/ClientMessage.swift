public import HTTPValues
package import JSONCoding

/// A message from a client to the broker.
public enum ClientMessage: Equatable, Sendable {
    /// The protocol version that this package implements.
    public static let protocolVersion = 1

    /// Opens the conversation; optional and repeatable. With `validity` it requests the validity page.
    case hello(id: Int, client: String?, validity: Bool = false)
    /// Requests an image.
    case get(GetRequest)
    /// Cancels a pending `get`.
    case cancel(id: Int, request: Int)
    /// Releases one lease of each buffer.
    case release(buffers: [Int])
    /// Reports images that were used without a request, and the total number of those uses.
    case touch(buffers: [Int], hits: Int)
    /// Requests the cache state of an image.
    case query(GetRequest)
    /// Loads URLs into the cache.
    case prefetch(PrefetchRequest)
    /// Adds an original to the cache; its bytes come as a descriptor or as the frame's payload.
    case store(StoreRequest)
    /// Removes a URL from the cache.
    case remove(id: Int, url: SourceURL)
    /// Requests the statistics.
    case stats(id: Int)
    /// Requests events until the connection closes.
    case subscribe(id: Int, events: Set<BrokerEvent.Name>)
    /// Empties a tier, or removes only the entries that were not used for `olderThanSeconds`.
    case clear(id: Int, tier: CacheTier, olderThanSeconds: Int?)
    /// Lists the recent failures (the wire's failed list).
    case failedList(id: Int, url: SourceURL?)
    /// Removes one URL, or all, from the recent failures.
    case failedClear(id: Int, url: SourceURL?)
    /// Suspends the start of new loads.
    case suspend(id: Int)
    /// Resumes the start of new loads.
    case resume(id: Int)
    /// Cancels all pending requests of all clients.
    case cancelAll(id: Int)

    /// The request's id; nil for a message without an answer.
    public var id: Int? {
        switch self {
        case .hello(let id, _, _), .cancel(let id, _), .remove(let id, _), .stats(let id), .subscribe(let id, _),
            .clear(let id, _, _), .failedList(let id, _), .failedClear(let id, _), .suspend(let id), .resume(let id),
            .cancelAll(let id):
            id
        case .get(let request), .query(let request): request.id
        case .prefetch(let request): request.id
        case .store(let request): request.id
        case .release, .touch: nil
        }
    }

    /// Whether the message is reserved for administrators.
    package var isAdministrative: Bool {
        switch self {
        case .clear, .failedList, .failedClear, .suspend, .resume, .cancelAll: true
        default: false
        }
    }

    /// The result of decoding a frame.
    package enum Decoded: Equatable, Sendable {
        /// A valid message.
        case message(ClientMessage)
        /// An invalid message, to be answered with this error.
        case rejected(id: Int?, WireError)
    }

    /// Reads a message from the JSON text of its frame.
    ///
    /// - Throws: `JSONReader.MalformedJSON` when the text is not a JSON object.
    package static func decode(_ text: ArraySlice<UInt8>) throws(JSONReader.MalformedJSON) -> (Decoded, Envelope) {
        let envelope = try Envelope(text)
        guard let type = envelope.type else {
            return (.rejected(id: envelope.id, WireError(.badRequest, "type must be a string.")), envelope)
        }
        var reader = JSONReader(text)
        if let problem = envelope.problem { reader.note(problem.field, expected: problem.expected) }
        if type == "release" || type == "touch" {
            return (try decodeBuffers(&reader, isTouch: type == "touch"), envelope)
        }
        guard let id = envelope.id else {
            let range = "an integer from 0 to \(JSONReader.maximumInteger)"
            return (.rejected(id: nil, WireError(.badRequest, "id must be \(range).")), envelope)
        }
        var rejection: WireError?
        let message = try decode(type, envelope, id: id, &reader, &rejection)
        if rejection == nil, let problem = reader.problem {
            rejection = WireError(.badRequest, "\(problem.field) must be \(problem.expected).")
        }
        if let rejection { return (.rejected(id: id, rejection), envelope) }
        guard let message else {
            return (.rejected(id: id, WireError(.badRequest, "type \"\(type.prefix(40))\" is not known.")), envelope)
        }
        return (.message(message), envelope)
    }

    /// Returns the message as a frame.
    public func encoded() -> [UInt8] {
        Frame.encode { writer in
            switch self {
            case .hello(let id, let client, let validity):
                Self.begin(&writer, "hello", id)
                writer.member("protocol", Self.protocolVersion)
                writer.member("client", client)
                if validity { writer.member("validity", true) }
            case .get(let request):
                Self.begin(&writer, "get", request.id)
                request.writeMembers(to: &writer)
            case .query(let request):
                Self.begin(&writer, "query", request.id)
                request.writeMembers(to: &writer)
            case .cancel(let id, let request):
                Self.begin(&writer, "cancel", id)
                writer.member("request", request)
            case .release(let buffers):
                writer.member("type", "release")
                writer.array("buffers", of: buffers)
            case .touch(let buffers, let hits):
                writer.member("type", "touch")
                writer.array("buffers", of: buffers)
                writer.member("hits", hits)
            case .remove(let id, let url):
                Self.begin(&writer, "remove", id)
                writer.member("url", url.text)
            case .stats(let id):
                Self.begin(&writer, "stats", id)
            case .prefetch(let request):
                Self.begin(&writer, "prefetch", request.id)
                writer.array("urls", of: request.urls.map(\.text))
                var options = request.options
                options.delivery = .fd
                options.writeMembers(to: &writer)
                // The default priority of a prefetch is `low`, so `normal` must be written.
                if options.priority == .normal { writer.member("priority", options.priority.rawValue) }
            case .store(let request):
                Self.begin(&writer, "store", request.id)
                writer.member("url", request.url.text)
                writer.member("contentType", request.contentType)
                if request.payload > 0 { writer.member("payload", request.payload) } else { writer.member("fds", 1) }
            case .subscribe(let id, let events):
                Self.begin(&writer, "subscribe", id)
                writer.array("events", of: events.map(\.rawValue).sorted())
            case .clear(let id, let tier, let seconds):
                Self.begin(&writer, "clear", id)
                writer.member("tier", tier.rawValue)
                writer.member("olderThanSeconds", seconds)
            case .failedList(let id, let url):
                Self.begin(&writer, "failed", id)
                writer.member("action", FailedAction.list.rawValue)
                writer.member("url", url?.text)
            case .failedClear(let id, let url):
                Self.begin(&writer, "failed", id)
                writer.member("action", FailedAction.clear.rawValue)
                writer.member("url", url?.text)
            case .suspend(let id): Self.begin(&writer, "suspend", id)
            case .resume(let id): Self.begin(&writer, "resume", id)
            case .cancelAll(let id): Self.begin(&writer, "cancelAll", id)
            }
        }
    }

    private static func begin(_ writer: inout JSONWriter, _ type: String, _ id: Int) {
        writer.member("type", type)
        writer.member("id", id)
    }

    private static func decode(
        _ type: String, _ envelope: Envelope, id: Int, _ reader: inout JSONReader, _ rejection: inout WireError?
    ) throws(JSONReader.MalformedJSON) -> ClientMessage? {
        switch type {
        case "hello":
            var (version, client, validity): (Int?, String?, Bool?)
            try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
                switch name {
                case "protocol": version = try reader.integer(name, in: 0...Int.max)
                case "client": client = try reader.string(name)
                case "validity": validity = try reader.boolean(name)
                default: try reader.skip()
                }
            }
            if version == nil { reader.note("protocol", expected: "an integer") }
            if let version, version != protocolVersion {
                let message = "Protocol version \(version) is not spoken here, only \(protocolVersion)."
                rejection = WireError(.unsupportedVersion, message)
            }
            return .hello(id: id, client: client, validity: validity ?? false)
        case "get":
            return try GetRequest(id: id, from: &reader, rejection: &rejection).map { .get($0) }
        case "query":
            return try GetRequest(id: id, from: &reader, rejection: &rejection).map { .query($0) }
        case "remove":
            return try GetRequest(id: id, from: &reader, rejection: &rejection).map { .remove(id: id, url: $0.url) }
        case "cancel":
            var request: Int?
            try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
                if name == "request" {
                    request = try reader.integer(name, in: 0...JSONReader.maximumInteger)
                } else {
                    try reader.skip()
                }
            }
            guard let request else {
                reader.note("request", expected: "the id of a get")
                return nil
            }
            return .cancel(id: id, request: request)
        case "stats": return .stats(id: id)
        case "prefetch":
            return try PrefetchRequest(id: id, from: &reader, rejection: &rejection).map { .prefetch($0) }
        case "store":
            return try StoreRequest(id: id, envelope, from: &reader, rejection: &rejection).map { .store($0) }
        case "subscribe": return try decodeSubscribe(id: id, &reader)
        case "clear": return try decodeClear(id: id, &reader)
        case "failed": return try decodeFailed(id: id, &reader, &rejection)
        case "suspend": return .suspend(id: id)
        case "resume": return .resume(id: id)
        case "cancelAll": return .cancelAll(id: id)
        default:
            return nil
        }
    }

    private static func decodeSubscribe(
        id: Int, _ reader: inout JSONReader
    ) throws(JSONReader.MalformedJSON) -> ClientMessage? {
        var events: Set<BrokerEvent.Name>?
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            guard name == "events" else { return try reader.skip() }
            events = []
            try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                if let event: BrokerEvent.Name = try reader.choice("events") { events?.insert(event) }
            }
        }
        guard let events else {
            reader.note("events", expected: "an array of names")
            return nil
        }
        return .subscribe(id: id, events: events)
    }

    private static func decodeClear(
        id: Int, _ reader: inout JSONReader
    ) throws(JSONReader.MalformedJSON) -> ClientMessage? {
        var (tier, seconds): (CacheTier?, Int?)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "tier": tier = try reader.choice(name)
            case "olderThanSeconds": seconds = try reader.integer(name, in: 0...Int(Int32.max))
            default: try reader.skip()
            }
        }
        guard let tier else {
            reader.note("tier", expected: "one of memory, disk, all")
            return nil
        }
        return .clear(id: id, tier: tier, olderThanSeconds: seconds)
    }

    private static func decodeFailed(
        id: Int, _ reader: inout JSONReader, _ rejection: inout WireError?
    ) throws(JSONReader.MalformedJSON) -> ClientMessage? {
        var (action, url): (FailedAction?, SourceURL?)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "action": action = try reader.choice(name)
            case "url": url = try SourceURL.read(name, from: &reader, rejection: &rejection)
            default: try reader.skip()
            }
        }
        switch action {
        case .list: return .failedList(id: id, url: url)
        case .clear: return .failedClear(id: id, url: url)
        case nil:
            reader.note("action", expected: "one of list, clear")
            return nil
        }
    }

    /// The maximum number of hits in one `touch`.
    static let mostTouchHits = 1_000_000_000

    /// Reads `release` and `touch`, the messages without an id.
    private static func decodeBuffers(
        _ reader: inout JSONReader, isTouch: Bool
    ) throws(JSONReader.MalformedJSON) -> Decoded {
        var buffers: [Int] = []
        var hits = 0
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "buffer":
                if let buffer = try reader.integer(name, in: 1...JSONReader.maximumInteger) { buffers.append(buffer) }
            case "buffers":
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    if let buffer = try reader.integer("buffers", in: 1...JSONReader.maximumInteger) {
                        buffers.append(buffer)
                    }
                }
            case "hits" where isTouch: hits = try reader.integer(name, in: 0...mostTouchHits) ?? 0
            default: try reader.skip()
            }
        }
        if let problem = reader.problem {
            return .rejected(id: nil, WireError(.badRequest, "\(problem.field) must be \(problem.expected)."))
        }
        return .message(isTouch ? .touch(buffers: buffers, hits: hits) : .release(buffers: buffers))
    }
}
