package import HTTPValues
internal import JSONCoding

/// A download of one body.
package struct FetchJob: Equatable, Sendable {
    /// The part of a body that was received before, and its validator (RFC 9110, section 13.1.5).
    package struct Resumption: Equatable, Sendable {
        /// The number of bytes received.
        package var offset: Int
        /// The value for `If-Range`: a strong entity tag, or an equally strong modification date.
        package var validator: String
        /// The whole body's length in bytes, if known.
        package var total: Int?

        /// Creates a resumption after `offset` bytes of the body with that validator.
        package init(offset: Int, validator: String, total: Int? = nil) {
            self.offset = offset
            self.validator = validator
            self.total = total
        }
    }

    /// The job's identifier in every report.
    package var id: Int
    /// An http or https URL without a fragment, in the canonical form of `SourceURL`.
    package var url: String
    /// Request headers as the client gave them, their names in lower case.
    package var headers: [HeaderField]
    /// Basic credentials, for the URL's own host only.
    package var credentials: Credentials?
    /// The maximum length of the body in bytes.
    package var maxBytes: Int
    /// The validators of the cached response, if any.
    package var conditions: RequestConditions?
    /// The partial body to continue, if any.
    package var resumption: Resumption?
    /// The requesting user's cookies as lines of Netscape's format; nil when cookies are neither sent nor returned.
    package var cookies: [String]?
    /// Whether a server certificate that fails verification is accepted.
    package var allowInvalidCertificates: Bool

    /// Creates a download of `url` with the properties of its request.
    package init(
        id: Int, url: String, headers: [HeaderField] = [], credentials: Credentials? = nil, maxBytes: Int,
        conditions: RequestConditions? = nil, resumption: Resumption? = nil, cookies: [String]? = nil,
        allowInvalidCertificates: Bool = false
    ) {
        self.id = id
        self.url = url
        self.headers = headers
        self.credentials = credentials
        self.maxBytes = maxBytes
        self.conditions = conditions
        self.resumption = resumption
        self.cookies = cookies
        self.allowInvalidCertificates = allowInvalidCertificates
    }
}

extension FetchJob {
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("job", id)
        writer.member("url", url)
        writer.array("headers", of: headers) {
            $0.member("name", $1.name)
            $0.member("value", $1.value)
        }
        if let credentials {
            writer.object("credentials") {
                $0.member("username", credentials.username)
                $0.member("password", credentials.password)
            }
        }
        writer.member("maxBytes", maxBytes)
        if let conditions {
            writer.object("conditions") {
                $0.member("etag", conditions.etag)
                $0.member("lastModified", conditions.lastModified)
            }
        }
        if let resumption {
            writer.object("resumption") {
                $0.member("offset", resumption.offset)
                $0.member("validator", resumption.validator)
                $0.member("total", resumption.total)
            }
        }
        if let cookies { writer.array("cookies", of: cookies) }
        if allowInvalidCertificates { writer.member("allowInvalidCertificates", true) }
    }

    init?(from reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        var (id, url, maxBytes): (Int?, String?, Int?)
        self.init(id: 0, url: "", maxBytes: 0)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "job": id = try reader.integer(name, in: 0...Int.max)
            case "url": url = try reader.string(name)
            case "maxBytes": maxBytes = try reader.integer(name, in: 0...Int.max)
            case "credentials": credentials = try Credentials(from: &reader, field: name)
            case "headers":
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    if let field = try HeaderField(from: &reader, field: name) { headers.append(field) }
                }
            case "conditions": conditions = try RequestConditions(from: &reader, field: name)
            case "resumption": resumption = try Resumption(from: &reader, field: name)
            case "cookies": cookies = try reader.strings(name)
            case "allowInvalidCertificates": allowInvalidCertificates = try reader.boolean(name) ?? false
            default: try reader.skip()
            }
        }
        guard let id, let url, let maxBytes else { return nil }
        self.id = id
        self.url = url
        self.maxBytes = maxBytes
    }
}

extension HeaderField {
    fileprivate init?(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        var (name, value): (String?, String?)
        try reader.object(field) { (reader, member) throws(JSONReader.MalformedJSON) in
            switch member {
            case "name": name = try reader.string(member)
            case "value": value = try reader.string(member)
            default: try reader.skip()
            }
        }
        guard let name, let value else { return nil }
        self.init(name: name, value: value)
    }
}

extension FetchJob.Resumption {
    fileprivate init?(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        var (offset, validator, total): (Int?, String?, Int?)
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "offset": offset = try reader.integer(name, in: 0...Int.max)
            case "validator": validator = try reader.string(name)
            case "total": total = try reader.integer(name, in: 0...Int.max)
            default: try reader.skip()
            }
        }
        guard let offset, let validator else {
            reader.note(field, expected: "complete")
            return nil
        }
        self.init(offset: offset, validator: validator, total: total)
    }
}
