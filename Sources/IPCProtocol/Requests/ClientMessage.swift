public import HTTPValues
package import JSONCoding

/// A message from a client to the broker.
public enum ClientMessage: Equatable, Sendable {
    /// The protocol version that this package implements.
    public static let protocolVersion = 1

    /// Opens the conversation; optional and repeatable. With `validity` it requests the validity page; with `segments`
    /// the connection maps segments.
    case hello(id: Int, client: String?, validity: Bool = false, segments: Bool = false)
    /// Requests an image.
    case get(GetRequest)
    /// Cancels a pending `get`.
    case cancel(id: Int, request: Int)
    /// Changes a pending `get` or `prefetch`: its priority, or with `detach` that its downloads go on although the
    /// client leaves.
    case update(id: Int, request: Int, priority: GetOptions.Priority?, detach: Bool)
    /// Releases one lease of each buffer.
    case release(buffers: [Int])
    /// Reports images that were used without a request, and the total number of those uses.
    case touch(buffers: [Int], hits: Int)
    /// Reports segments that are not mapped any more.
    case forgetSegments([Int])
    /// Requests the cache state of an image.
    case query(GetRequest)
    /// Loads URLs into the cache.
    case prefetch(PrefetchRequest)
    /// Adds an original to the cache; its bytes come as a descriptor or as the frame's payload.
    case store(StoreRequest)
    /// Removes a URL from the cache.
    case remove(id: Int, url: SourceURL)
    /// Removes a local file, whose descriptor comes with the message, from the cache.
    case removeFile(id: Int, file: LocalFile)
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
    /// Reads the broker's settings again.
    case reload(id: Int)
    /// Lets the installed program take the running one's place.
    case upgrade(id: Int)

    /// The request's id; nil for a message without an answer.
    public var id: Int? {
        switch self {
        case .hello(let id, _, _, _), .cancel(let id, _), .update(let id, _, _, _), .remove(let id, _),
            .removeFile(let id, _), .stats(let id),
            .subscribe(let id, _),
            .clear(let id, _, _), .failedList(let id, _), .failedClear(let id, _), .suspend(let id), .resume(let id),
            .cancelAll(let id), .reload(let id), .upgrade(let id):
            id
        case .get(let request), .query(let request): request.id
        case .prefetch(let request): request.id
        case .store(let request): request.id
        case .release, .touch, .forgetSegments: nil
        }
    }

    /// The URL that the message is about; nil without one, and with several.
    package var url: SourceURL? {
        switch self {
        case .get(let request), .query(let request): request.file == nil ? request.url : nil
        case .store(let request): request.url
        case .remove(_, let url): url
        case .failedList(_, let url), .failedClear(_, let url): url
        default: nil
        }
    }

    /// Whether the message is about a local file, whose descriptor comes with it.
    package var isAboutFile: Bool {
        switch self {
        case .get(let request), .query(let request): request.file != nil
        case .removeFile: true
        default: false
        }
    }

    /// Whether the message is reserved for administrators.
    package var isAdministrative: Bool {
        switch self {
        case .clear, .failedList, .failedClear, .suspend, .resume, .cancelAll, .reload, .upgrade: true
        default: false
        }
    }

    /// The result of decoding a frame.
    package enum Decoded: Equatable, Sendable {
        case message(ClientMessage)
        /// An invalid message, to be answered with this error.
        case rejected(id: Int?, WireError)
    }

    /// Reads a message from the JSON text of its frame.
    ///
    /// - Throws: `JSONReader.MalformedJSON` when the text is not a JSON object.
    package static func decode(_ text: ArraySlice<UInt8>) throws(JSONReader.MalformedJSON) -> (Decoded, Envelope) {
        var fields = try Fields(reading: text, tokens: mostTokens)
        let envelope = Envelope(&fields)
        guard let type = envelope.type else {
            let error = WireError(.badRequest, "type must be a string of at most \(Envelope.longestType) bytes.")
            return (.rejected(id: envelope.id, error), envelope)
        }
        var message = blanks[type] ?? .stats(id: 0)
        message.list(&fields)
        if blanks[type] == nil { fields.note("type", expected: "known, unlike \"\(type.shortened(40))\"") }
        let id = message.id == nil ? nil : envelope.id
        if let refusal = fields.refusal as? WireError { return (.rejected(id: id, refusal), envelope) }
        if let problem = fields.problem {
            let error = WireError(.badRequest, "\(problem.field) must be \(problem.expected).")
            return (.rejected(id: id, error), envelope)
        }
        return (.message(message), envelope)
    }

    /// Returns the message as a frame.
    ///
    /// - Throws: `Frame.TooLong`.
    public func encoded() throws(Frame.TooLong) -> [UInt8] {
        try Frame.encode { fields in
            fields.constant("type", type)
            var copy = self
            copy.list(&fields)
        }
    }

    /// The messages that reading starts from, by type.
    private static let blanks: [String: ClientMessage] = {
        let blanks: [ClientMessage] = [
            .hello(id: 0, client: nil), .get(.blank), .query(.blank), .cancel(id: 0, request: 0),
            .update(id: 0, request: 0, priority: nil, detach: false), .release(buffers: []),
            .touch(buffers: [], hits: 0), .forgetSegments([]), .prefetch(.blank), .store(.blank),
            .remove(id: 0, url: .blank), .stats(id: 0), .subscribe(id: 0, events: []),
            .clear(id: 0, tier: .all, olderThanSeconds: nil), .failedList(id: 0, url: nil), .suspend(id: 0),
            .resume(id: 0), .cancelAll(id: 0), .reload(id: 0), .upgrade(id: 0),
        ]
        return Dictionary(uniqueKeysWithValues: blanks.map { ($0.type, $0) })
    }()

    /// The message's type on the wire.
    package var type: String {
        switch self {
        case .hello: "hello"
        case .get: "get"
        case .cancel: "cancel"
        case .update: "update"
        case .release: "release"
        case .touch: "touch"
        case .forgetSegments: "forgetSegments"
        case .query: "query"
        case .prefetch: "prefetch"
        case .store: "store"
        case .remove, .removeFile: "remove"
        case .stats: "stats"
        case .subscribe: "subscribe"
        case .clear: "clear"
        case .failedList, .failedClear: "failed"
        case .suspend: "suspend"
        case .resume: "resume"
        case .cancelAll: "cancelAll"
        case .reload: "reload"
        case .upgrade: "upgrade"
        }
    }

    private mutating func list(_ fields: inout Fields) {
        switch self {
        case .hello(var id, var client, var validity, var segments):
            fields.id(&id)
            var version = Self.protocolVersion
            fields.integer("protocol", &version, in: 0...Int.max)
            fields.string("client", &client, most: 255)
            fields.flag("validity", &validity)
            fields.flag("segments", &segments)
            if version != Self.protocolVersion {
                let message = "Protocol version \(version) is not spoken here, only \(Self.protocolVersion)."
                fields.refuse(with: WireError(.unsupportedVersion, message))
            }
            self = .hello(id: id, client: client, validity: validity, segments: segments)
        case .get(var request):
            request.list(&fields)
            self = .get(request)
        case .query(var request):
            request.list(&fields)
            self = .query(request)
        case .cancel(let id, let request):
            self = .cancel(
                id: fields.id(id), request: fields.integer("request", request, in: 0...JSONReader.maximumInteger))
        case .update(var id, var request, var priority, var detach):
            fields.id(&id)
            fields.integer("request", &request, in: 0...JSONReader.maximumInteger)
            fields.choice("priority", &priority)
            fields.flag("detach", &detach)
            if fields.isReading, priority == nil, !detach {
                fields.note("priority", expected: "present without \"detach\": true")
            }
            self = .update(id: id, request: request, priority: priority, detach: detach)
        case .release(let buffers): self = .release(buffers: fields.value(buffers) { $0.buffers(&$1) })
        case .touch(var buffers, var hits):
            fields.buffers(&buffers)
            fields.integer("hits", &hits, in: 0...Self.mostTouchHits, .optional)
            self = .touch(buffers: buffers, hits: hits)
        case .forgetSegments(var segments):
            fields.integers("segments", &segments, in: 1...JSONReader.maximumInteger, most: Self.mostBuffers)
            self = .forgetSegments(segments)
        case .prefetch(let request): self = .prefetch(fields.members(of: request))
        case .store(let request): self = .store(fields.members(of: request))
        case .remove(var id, var url):
            var file: LocalFile?
            fields.id(&id)
            fields.source(&url, &file)
            self = file.map { .removeFile(id: id, file: $0) } ?? .remove(id: id, url: url)
        case .removeFile(let id, let file):
            self = .removeFile(id: fields.id(id), file: fields.members(of: file))
        case .subscribe(let id, let events):
            self = .subscribe(id: fields.id(id), events: fields.value(events) { $0.events("events", &$1) })
        case .clear(let id, let tier, let seconds):
            self = .clear(
                id: fields.id(id), tier: fields.value(tier) { $0.choice("tier", &$1) },
                olderThanSeconds: fields.integer("olderThanSeconds", seconds, in: 0...Int(Int32.max)))
        case .failedList(var id, var url), .failedClear(var id, var url):
            var action = FailedAction.list
            if case .failedClear = self { action = .clear }
            fields.id(&id)
            fields.choice("action", &action)
            fields.url("url", &url)
            self = action == .list ? .failedList(id: id, url: url) : .failedClear(id: id, url: url)
        case .stats(let id): self = .stats(id: fields.id(id))
        case .suspend(let id): self = .suspend(id: fields.id(id))
        case .resume(let id): self = .resume(id: fields.id(id))
        case .cancelAll(let id): self = .cancelAll(id: fields.id(id))
        case .reload(let id): self = .reload(id: fields.id(id))
        case .upgrade(let id): self = .upgrade(id: fields.id(id))
        }
    }

    /// The maximum number of hits in one `touch`.
    static let mostTouchHits = 1_000_000_000
    /// The maximum number of buffers in one `release` or `touch`, and of segments in one `forgetSegments`.
    public static let mostBuffers = 16_384
    /// The maximum number of tokens of a message (`JSONScanner`). It bounds the time of reading a frame.
    static let mostTokens = 24_576
}

extension Fields {
    /// The numbers of buffers: an array or, when read, also a single one.
    fileprivate mutating func buffers(_ values: inout [Int]) {
        let range = 1...JSONReader.maximumInteger
        var single: Int?
        integers("buffers", &values, in: range, most: ClientMessage.mostBuffers, .optional)
        integer("buffer", &single, in: range)
        if let single { values.append(single) }
    }

    /// The names of events, sorted.
    fileprivate mutating func events(_ name: StaticString, _ values: inout Set<BrokerEvent.Name>) {
        var names = values.map(\.rawValue).sorted()
        strings(name, &names, most: BrokerEvent.Name.allCases.count, bytes: 255)
        guard isReading else { return }
        values = []
        for text in names {
            guard let event = BrokerEvent.Name(rawValue: text) else {
                let known = BrokerEvent.Name.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
                return note("\(name)", expected: "an array of \(known)")
            }
            values.insert(event)
        }
    }
}
