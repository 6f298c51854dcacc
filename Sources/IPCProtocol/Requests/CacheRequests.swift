public import HTTPValues
internal import JSONCoding

/// A `prefetch`: URLs to load into the cache, all in the same way.
public struct PrefetchRequest: Equatable, Sendable {
    /// The most URLs of one request.
    public static let maximumURLs = 1000

    /// The request's name among the client's unanswered ones.
    public var id: Int
    /// What to load, in this order.
    public var urls: [SourceURL]
    /// How. The delivery is `none`, the priority `low` unless given.
    public var options: GetOptions

    /// A request to load `urls`.
    public init(id: Int, urls: [SourceURL], options: GetOptions = PrefetchRequest.defaultOptions) {
        self.id = id
        self.urls = urls
        self.options = options
    }

    /// Low priority, no delivery.
    public static var defaultOptions: GetOptions {
        var options = GetOptions()
        options.delivery = .none
        options.priority = .low
        return options
    }

    init?(
        id: Int, from reader: inout JSONReader, rejection: inout WireError?
    ) throws(JSONReader.MalformedJSON) {
        var urls: [SourceURL]?
        var options = Self.defaultOptions
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "urls":
                urls = []
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    if let url = try SourceURL.read(name, from: &reader, rejection: &rejection) { urls?.append(url) }
                }
            case "delivery": reader.note(name, expected: "absent: a prefetch delivers nothing"); try reader.skip()
            default: if try !options.readMember(name, from: &reader) { try reader.skip() }
            }
        }
        guard let urls else {
            reader.note("urls", expected: "an array of URLs")
            return nil
        }
        if urls.count > Self.maximumURLs { reader.note("urls", expected: "\(Self.maximumURLs) URLs at most") }
        options.noteContradictions(in: &reader)
        if rejection != nil || reader.problem != nil { return nil }
        self.init(id: id, urls: urls, options: options)
    }
}

/// A `store`: an original for the cache, as if it had been loaded.
public struct StoreRequest: Equatable, Sendable {
    /// The request's name among the client's unanswered ones.
    public var id: Int
    /// The URL under which it is to be found.
    public var url: SourceURL
    /// What the bytes are said to be; what they are is looked at.
    public var contentType: String?
    /// How many bytes follow the frame; 0 when they come as a descriptor.
    public var payload: Int

    /// A request to keep an original.
    public init(id: Int, url: SourceURL, contentType: String? = nil, payload: Int) {
        self.id = id
        self.url = url
        self.contentType = contentType
        self.payload = payload
    }

    init?(
        id: Int, _ envelope: Envelope, from reader: inout JSONReader, rejection: inout WireError?
    ) throws(JSONReader.MalformedJSON) {
        var (url, contentType): (SourceURL?, String?)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "url": url = try SourceURL.read(name, from: &reader, rejection: &rejection)
            case "contentType": contentType = try reader.string(name)
            default: try reader.skip()
            }
        }
        switch (envelope.descriptors, envelope.payload) {
        case (1, 0), (0, 1...): break
        default: reader.note("payload", expected: "the encoded bytes, unless one descriptor has them")
        }
        guard let url else {
            if rejection == nil { reader.note("url", expected: "an http or https URL") }
            return nil
        }
        if rejection != nil || reader.problem != nil { return nil }
        self.init(id: id, url: url, contentType: contentType, payload: envelope.payload)
    }
}

/// What `clear` empties.
public enum CacheTier: String, CaseIterable, Sendable {
    case memory, disk, all

    /// Whether memory is meant.
    public var includesMemory: Bool { self != .disk }
    /// Whether the disk is meant.
    public var includesDisk: Bool { self != .memory }
}

/// What `failed` does.
enum FailedAction: String, CaseIterable {
    case list, clear
}

/// An entry of the failed list.
public struct FailedEntry: Equatable, Sendable {
    /// The URL that is not tried again for now.
    public var url: String
    /// Why it failed.
    public var code: ErrorCode
    /// Until when, in Unix seconds.
    public var expires: Int

    /// An entry with all it has.
    public init(url: String, code: ErrorCode, expires: Int) {
        self.url = url
        self.code = code
        self.expires = expires
    }
}

/// Something that subscribers are told of.
public struct BrokerEvent: Equatable, Sendable {
    /// What has happened.
    public enum Name: String, CaseIterable, Sendable {
        /// A download was handed to a worker.
        case started
        /// Its origin has answered.
        case responded
        /// It is complete, or what is cached was confirmed.
        case finished
        /// It has failed.
        case failed
        /// A picture has left the memory.
        case evicted
        /// A worker has ended.
        case worker
    }

    /// What has happened.
    public var name: Name
    /// The URL that it is about.
    public var url: String?
    /// The worker that it is about.
    public var pid: Int?
    /// Why it has happened: an error's code, or how the worker ended.
    public var reason: String?

    /// An event with what applies to it.
    public init(_ name: Name, url: String? = nil, pid: Int? = nil, reason: String? = nil) {
        self.name = name
        self.url = url
        self.pid = pid
        self.reason = reason
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("event", name.rawValue)
        writer.member("url", url)
        writer.member("pid", pid)
        writer.member("reason", reason)
    }

    init?(from reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        var name: Name?
        self.init(.started)
        try reader.readMessage { (reader, member) throws(JSONReader.MalformedJSON) in
            switch member {
            case "event": name = try reader.choice(member)
            case "url": url = try reader.string(member)
            case "pid": pid = try reader.integer(member, in: 0...Int.max)
            case "reason": reason = try reader.string(member)
            default: try reader.skip()
            }
        }
        guard let name else { return nil }
        self.name = name
    }
}
