// What the broker and a download worker say to each other: frames of the wire protocol over a socket pair.
//
//     broker → fetch     + 1 descriptor (where the body goes, from its beginning)
//     worker → progress  with the first byte, then at most 20 a second
//     worker → finished | failed
//
// Any number of transfers run at once. After `stop` the worker may still report about a transfer that had just ended.

/// One body to be downloaded.
public struct FetchJob: Equatable, Sendable {
    /// Names the job in every report about it.
    public var id: Int
    /// An http or https URL without a fragment, in the canonical form of `SourceURL`.
    public var url: String
    /// Request headers as the client gave them, their names in lower case.
    public var headers: [HeaderField]
    /// Basic credentials, for the URL's own host only.
    public var credentials: Credentials?
    /// The most bytes the body may have.
    public var maxBytes: Int

    /// A download of `url` with what goes with the request.
    public init(id: Int, url: String, headers: [HeaderField] = [], credentials: Credentials? = nil, maxBytes: Int) {
        self.id = id
        self.url = url
        self.headers = headers
        self.credentials = credentials
        self.maxBytes = maxBytes
    }
}

/// What the origin answered with success.
public struct FetchResult: Equatable, Sendable {
    /// The body's length in bytes.
    public var bytes: Int
    /// The body's SHA-256, 64 hexadecimal digits.
    public var digest: String
    /// The response's header fields that are kept.
    public var contentType: String?
    /// The entity tag (RFC 9110, section 8.8.3).
    public var etag: String?
    /// The date of the last change, as the origin wrote it.
    public var lastModified: String?
    /// The numeric address that the body came from.
    public var remoteAddress: String

    /// A result with what is known of it.
    public init(
        bytes: Int, digest: String, contentType: String? = nil, etag: String? = nil, lastModified: String? = nil,
        remoteAddress: String
    ) {
        self.bytes = bytes
        self.digest = digest
        self.contentType = contentType
        self.etag = etag
        self.lastModified = lastModified
        self.remoteAddress = remoteAddress
    }
}

/// What the broker tells a download worker.
public enum FetchOrder: Equatable, Sendable {
    /// Begin a transfer; comes with the descriptor for the body.
    case fetch(FetchJob)
    /// End a transfer: nobody wants it any more.
    case stop(job: Int)
}

/// What a download worker reports.
public enum FetchReport: Equatable, Sendable {
    /// Transfers can come.
    case ready
    /// Bytes of the body that have arrived, and how many there will be, where that is known.
    case progress(job: Int, received: Int, expected: Int?)
    /// The body is complete.
    case finished(job: Int, FetchResult)
    /// The transfer has ended without a body.
    case failed(job: Int, WireError)
}

extension FetchOrder: WorkerMessage {
    public var descriptorCount: Int {
        if case .fetch = self { 1 } else { 0 }
    }

    public var type: String {
        switch self {
        case .fetch: "fetch"
        case .stop: "stop"
        }
    }

    public func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .fetch(let job):
            writer.member("job", job.id)
            writer.member("url", job.url)
            writer.array("headers", of: job.headers) {
                $0.member("name", $1.name)
                $0.member("value", $1.value)
            }
            if let credentials = job.credentials {
                writer.object("credentials") {
                    $0.member("username", credentials.username)
                    $0.member("password", credentials.password)
                }
            }
            writer.member("maxBytes", job.maxBytes)
        case .stop(let job): writer.member("job", job)
        }
    }

    public init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        var (id, url, maxBytes, credentials): (Int?, String?, Int?, Credentials?)
        var headers: [HeaderField] = []
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "job": id = try reader.integer(name, in: 0...Int.max)
            case "url": url = try reader.string(name)
            case "maxBytes": maxBytes = try reader.integer(name, in: 0...Int.max)
            case "credentials": credentials = try Credentials(from: &reader, field: name)
            case "headers":
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    var (field, value): (String?, String?)
                    try reader.object("headers") { (reader, name) throws(JSONReader.MalformedJSON) in
                        switch name {
                        case "name": field = try reader.string(name)
                        case "value": value = try reader.string(name)
                        default: try reader.skip()
                        }
                    }
                    if let field, let value { headers.append(HeaderField(name: field, value: value)) }
                }
            default: try reader.skip()
            }
        }
        guard let id else { return nil }
        switch type {
        case "fetch":
            guard let url, let maxBytes else { return nil }
            self = .fetch(FetchJob(id: id, url: url, headers: headers, credentials: credentials, maxBytes: maxBytes))
        case "stop": self = .stop(job: id)
        default: return nil
        }
    }
}

extension FetchReport: WorkerMessage {
    public var descriptorCount: Int { 0 }

    public var type: String {
        switch self {
        case .ready: "ready"
        case .progress: "progress"
        case .finished: "finished"
        case .failed: "failed"
        }
    }

    public func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .ready: break
        case .progress(let job, let received, let expected):
            writer.member("job", job)
            writer.member("received", received)
            writer.member("expected", expected)
        case .finished(let job, let result):
            writer.member("job", job)
            writer.member("bytes", result.bytes)
            writer.member("digest", result.digest)
            writer.member("contentType", result.contentType)
            writer.member("etag", result.etag)
            writer.member("lastModified", result.lastModified)
            writer.member("remoteAddress", result.remoteAddress)
        case .failed(let job, let error):
            writer.member("job", job)
            error.write(to: &writer)
        }
    }

    public init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        if type == "ready" {
            self = .ready
            return
        }
        let text = reader
        var (id, received, expected, bytes): (Int?, Int?, Int?, Int?)
        var (digest, contentType, etag, lastModified, remoteAddress): (String?, String?, String?, String?, String?)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "job": id = try reader.integer(name, in: 0...Int.max)
            case "received": received = try reader.integer(name, in: 0...Int.max)
            case "expected": expected = try reader.integer(name, in: 0...Int.max)
            case "bytes": bytes = try reader.integer(name, in: 0...Int.max)
            case "digest": digest = try reader.string(name)
            case "contentType": contentType = try reader.string(name)
            case "etag": etag = try reader.string(name)
            case "lastModified": lastModified = try reader.string(name)
            case "remoteAddress": remoteAddress = try reader.string(name)
            default: try reader.skip()
            }
        }
        guard let id else { return nil }
        switch type {
        case "progress":
            guard let received else { return nil }
            self = .progress(job: id, received: received, expected: expected)
        case "finished":
            guard let bytes, let digest, digest.utf8.count == 64, let remoteAddress else { return nil }
            self = .finished(
                job: id,
                FetchResult(
                    bytes: bytes, digest: digest, contentType: contentType, etag: etag, lastModified: lastModified,
                    remoteAddress: remoteAddress))
        case "failed":
            reader = text
            self = .failed(job: id, try WireError(from: &reader))
        default: return nil
        }
    }
}
