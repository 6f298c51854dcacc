/// A message from a client to the broker.
public enum ClientMessage: Equatable, Sendable {
    /// The version of the protocol that this package speaks.
    public static let protocolVersion = 1

    /// Opens the conversation; may be left out, and repeated.
    case hello(id: Int, client: String?)
    /// Asks for an image.
    case get(GetRequest)
    /// Ends a pending `get`.
    case cancel(id: Int, request: Int)
    /// Gives back one lease of each buffer.
    case release(buffers: [Int])
    /// Asks what is cached.
    case query(GetRequest)
    /// Forgets a URL.
    case remove(id: Int, url: SourceURL)
    /// Asks for figures.
    case stats(id: Int)

    /// The request's name; nil for a message without an answer.
    public var id: Int? {
        switch self {
        case .hello(let id, _), .cancel(let id, _), .remove(let id, _), .stats(let id): id
        case .get(let request), .query(let request): request.id
        case .release: nil
        }
    }

    /// What became of a frame.
    public enum Decoded: Equatable, Sendable {
        /// A message.
        case message(ClientMessage)
        /// One that gets this error.
        case rejected(id: Int?, WireError)
    }

    /// Reads a message from the JSON text of its frame.
    ///
    /// - Throws: `JSONReader.MalformedJSON` when it is no JSON object.
    public static func decode(_ text: ArraySlice<UInt8>) throws(JSONReader.MalformedJSON) -> (Decoded, Envelope) {
        let envelope = try Envelope(text)
        guard let type = envelope.type else {
            return (.rejected(id: envelope.id, WireError(.badRequest, "type must be a string.")), envelope)
        }
        var reader = JSONReader(text)
        if let problem = envelope.problem { reader.note(problem.field, expected: problem.expected) }
        if type == "release" { return (try decodeRelease(&reader), envelope) }
        guard let id = envelope.id else {
            let range = "an integer from 0 to \(Envelope.maximumInteger)"
            return (.rejected(id: nil, WireError(.badRequest, "id must be \(range).")), envelope)
        }
        var rejection: WireError?
        let message = try decode(type, id: id, &reader, &rejection)
        if rejection == nil, let problem = reader.problem {
            rejection = WireError(.badRequest, "\(problem.field) must be \(problem.expected).")
        }
        if let rejection { return (.rejected(id: id, rejection), envelope) }
        guard let message else {
            return (.rejected(id: id, WireError(.badRequest, "type \"\(type.prefix(40))\" is not known.")), envelope)
        }
        return (.message(message), envelope)
    }

    /// The message as a frame.
    public func encoded() -> [UInt8] {
        Frame.encode { writer in
            switch self {
            case .hello(let id, let client):
                Self.begin(&writer, "hello", id)
                writer.member("protocol", Self.protocolVersion)
                writer.member("client", client)
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
            case .remove(let id, let url):
                Self.begin(&writer, "remove", id)
                writer.member("url", url.text)
            case .stats(let id):
                Self.begin(&writer, "stats", id)
            }
        }
    }

    private static func begin(_ writer: inout JSONWriter, _ type: String, _ id: Int) {
        writer.member("type", type)
        writer.member("id", id)
    }

    private static func decode(
        _ type: String, id: Int, _ reader: inout JSONReader, _ rejection: inout WireError?
    ) throws(JSONReader.MalformedJSON) -> ClientMessage? {
        switch type {
        case "hello":
            var (version, client): (Int?, String?)
            try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
                switch name {
                case "protocol": version = try reader.integer(name, in: 0...Int.max)
                case "client": client = try reader.string(name)
                default: try reader.skip()
                }
            }
            if version == nil { reader.note("protocol", expected: "an integer") }
            if let version, version != protocolVersion {
                let message = "Protocol version \(version) is not spoken here, only \(protocolVersion)."
                rejection = WireError(.unsupportedVersion, message)
            }
            return .hello(id: id, client: client)
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
                    request = try reader.integer(name, in: 0...Envelope.maximumInteger)
                } else {
                    try reader.skip()
                }
            }
            guard let request else {
                reader.note("request", expected: "the id of a get")
                return nil
            }
            return .cancel(id: id, request: request)
        case "stats":
            return .stats(id: id)
        default:
            return nil
        }
    }

    private static func decodeRelease(_ reader: inout JSONReader) throws(JSONReader.MalformedJSON) -> Decoded {
        var buffers: [Int] = []
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "buffer":
                if let buffer = try reader.integer(name, in: 1...Envelope.maximumInteger) { buffers.append(buffer) }
            case "buffers":
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    if let buffer = try reader.integer("buffers", in: 1...Envelope.maximumInteger) {
                        buffers.append(buffer)
                    }
                }
            default: try reader.skip()
            }
        }
        if let problem = reader.problem {
            return .rejected(id: nil, WireError(.badRequest, "\(problem.field) must be \(problem.expected)."))
        }
        return .message(.release(buffers: buffers))
    }
}
