package import HTTPValues
package import JSONCoding

/// A download of one body.
package struct FetchJob: Equatable, Sendable, FieldList {
    /// The part of a body that was received before, and its validator (RFC 9110, section 13.1.5).
    package struct Resumption: Equatable, Sendable, FieldList {
        /// The number of bytes received.
        package var offset: Int
        /// The value for `If-Range`: a strong entity tag, or an equally strong modification date.
        package var validator: String
        /// The whole body's length in bytes, if known.
        package var total: Int?
        /// The URL that the body came from, where a redirect led to it: no other is asked for the rest. Nil for the
        /// job's own URL.
        package var url: String?

        package init(offset: Int, validator: String, total: Int? = nil, url: String? = nil) {
            self.offset = offset
            self.validator = validator
            self.total = total
            self.url = url
        }

        package static var blank: FetchJob.Resumption { FetchJob.Resumption(offset: 0, validator: "") }

        package mutating func list(_ fields: inout Fields) {
            fields.integer("offset", &offset, in: 0...Int.max)
            fields.string("validator", &validator)
            fields.integer("total", &total, in: 0...Int.max)
            fields.string("url", &url)
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

    package static var blank: FetchJob { FetchJob(id: 0, url: "", maxBytes: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.job(&id)
        fields.string("url", &url)
        fields.objects("headers", &headers, .optional)
        fields.object("credentials", &credentials)
        fields.integer("maxBytes", &maxBytes, in: 0...Int.max)
        fields.object("conditions", &conditions)
        fields.object("resumption", &resumption)
        fields.strings("cookies", &cookies)
        fields.flag("allowInvalidCertificates", &allowInvalidCertificates)
    }
}
