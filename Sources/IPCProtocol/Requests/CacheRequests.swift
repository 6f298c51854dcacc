public import HTTPValues
package import JSONCoding

/// A `prefetch`: loads URLs into the cache, all with the same options.
public struct PrefetchRequest: Equatable, Sendable {
    /// The maximum number of URLs in one request.
    public static let maximumURLs = 1000
    /// The maximum length of all URLs of one request together, in bytes.
    public static let maximumBytes = 192 << 10

    /// The request's id, unique among the client's pending requests.
    public var id: Int
    /// The URLs to load, in this order.
    public var urls: [SourceURL]
    /// The options. By default the delivery is `none` and the priority `low`.
    public var options: GetOptions

    /// Creates a request to load `urls`.
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
}

extension PrefetchRequest: FieldList {
    package static var blank: PrefetchRequest { PrefetchRequest(id: 0, urls: []) }

    package mutating func list(_ fields: inout Fields) {
        fields.id(&id)
        fields.urls("urls", &urls, most: Self.maximumURLs, bytes: Self.maximumBytes)
        // A prefetch delivers nothing, so it has no field for the delivery.
        options.delivery = .none
        if fields.isReading, fields.has("delivery") {
            fields.note("delivery", expected: "absent: a prefetch delivers nothing")
        }
        options.list(&fields, usual: Self.defaultOptions)
        if fields.isReading, fields.has("alternatives") {
            fields.note("alternatives", expected: "absent: each URL would have the same")
        }
    }
}

/// A `store`: adds an original to the cache as if it had been downloaded.
public struct StoreRequest: Equatable, Sendable {
    /// Where stored pixels are kept.
    public enum Storage: String, CaseIterable, Sendable {
        /// In memory only.
        case memory
        /// In memory, and in the disk tier.
        case disk
    }

    /// The request's id, unique among the client's pending requests.
    public var id: Int
    /// The URL that identifies the original in the cache.
    public var url: SourceURL
    /// The claimed media type; the actual format is recognised from the bytes.
    public var contentType: String?
    /// The number of bytes of payload that follow the frame; 0 when the original comes as a descriptor.
    public var payload: Int
    /// The layout of pixels in the descriptor; nil for encoded bytes.
    public var pixels: StoredPixels?
    /// Where pixels are kept.
    public var storage = Storage.memory

    /// Creates a request to store an original.
    public init(id: Int, url: SourceURL, contentType: String? = nil, payload: Int) {
        self.id = id
        self.url = url
        self.contentType = contentType
        self.payload = payload
    }

    /// Creates a request to store pixels, which come as a descriptor.
    public init(id: Int, url: SourceURL, pixels: StoredPixels, storage: Storage = .memory) {
        self.init(id: id, url: url, payload: 0)
        self.pixels = pixels
        self.storage = storage
    }

    /// Whether its bytes are to be kept on disk.
    package var entersDisk: Bool { pixels == nil || storage == .disk }
}

extension StoreRequest: FieldList {
    package static var blank: StoreRequest { StoreRequest(id: 0, url: .blank, payload: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.id(&id)
        fields.url("url", &url)
        fields.string("contentType", &contentType, most: 255)
        fields.object("pixels", &pixels)
        fields.choice("storage", &storage, omitting: .memory)
        if fields.isReading, pixels == nil, fields.has("storage") {
            fields.note("storage", expected: "absent without pixels")
        }
        if pixels != nil, contentType != nil { fields.note("contentType", expected: "absent with pixels") }
        fields.integer("payload", &payload, in: 0...JSONReader.maximumInteger, omitting: 0)
        var descriptors = payload > 0 ? 0 : 1
        if fields.isReading { descriptors = 0 }
        fields.integer("fds", &descriptors, in: 0...253, omitting: 0)
        switch (descriptors, payload) {
        case (1, 0): break
        case (0, 1...) where pixels == nil: break
        case (_, _) where pixels != nil: fields.note("fds", expected: "1, without payload, with pixels")
        default: fields.note("payload", expected: "the encoded bytes, unless one descriptor has them")
        }
    }
}

/// The tiers that `clear` empties.
public enum CacheTier: String, CaseIterable, Sendable {
    case memory, disk, all

    /// Whether the memory is included.
    public var includesMemory: Bool { self != .disk }
    /// Whether the disk tier is included.
    public var includesDisk: Bool { self != .memory }
}

/// The actions of `failed`.
enum FailedAction: String, CaseIterable {
    case list, clear
}

/// An entry of the recent failures (the wire's failed list).
public struct FailedEntry: Equatable, Sendable {
    /// The URL that is not retried until the entry expires.
    public var url: String
    /// The code of the failure.
    public var code: ErrorCode
    /// The expiry of the entry, in Unix seconds.
    public var expires: Int

    /// Creates an entry.
    public init(url: String, code: ErrorCode, expires: Int) {
        self.url = url
        self.code = code
        self.expires = expires
    }
}

/// An event sent to subscribers.
public struct BrokerEvent: Equatable, Sendable {
    /// The kinds of events.
    public enum Name: String, CaseIterable, Sendable {
        /// A download was handed to a worker.
        case started
        /// The origin of a download has answered.
        case responded
        /// A download is complete, or the cached response was confirmed.
        case finished
        /// A download has failed.
        case failed
        /// An image was evicted from memory.
        case evicted
        /// A worker has exited.
        case worker
    }

    /// The kind of event.
    public var name: Name
    /// The URL that the event concerns.
    public var url: String?
    /// The name of the local file that the event concerns; empty for one without a name.
    public var file: String?
    /// The process id of the worker that the event concerns.
    public var pid: Int?
    /// The reason: an error's code, or the cause of the worker's exit.
    public var reason: String?
    /// Whether a finished download ended after the image's header, because no request needed more.
    public var partial = false

    /// Creates an event with the members that apply to it.
    public init(_ name: Name, url: String? = nil, file: String? = nil, pid: Int? = nil, reason: String? = nil) {
        self.name = name
        self.url = url
        self.file = file
        self.pid = pid
        self.reason = reason
    }
}

extension BrokerEvent: FieldList {
    package static var blank: BrokerEvent { BrokerEvent(.started) }

    package mutating func list(_ fields: inout Fields) {
        fields.choice("event", &name)
        fields.string("url", &url)
        fields.string("name", &file)
        fields.integer("pid", &pid, in: 0...Int.max)
        fields.string("reason", &reason)
        fields.flag("partial", &partial)
    }
}
