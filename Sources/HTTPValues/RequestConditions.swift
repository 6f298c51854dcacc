package import JSONCoding

/// The validators of a stored response, sent so that its origin answers 304 while it is still current (RFC 9110,
/// section 13.1).
package struct RequestConditions: Equatable, Sendable, FieldList {
    /// The value of `If-None-Match`.
    package var etag: String?
    /// The value of `If-Modified-Since`.
    package var lastModified: String?
    /// The URL that the validators came from, where a redirect led to it: no other is sent them. Nil for the requested
    /// URL.
    package var url: String?

    /// Whether there is no validator.
    package var isEmpty: Bool { etag == nil && lastModified == nil }

    /// Creates conditions; at least one validator must be given.
    package init(etag: String? = nil, lastModified: String? = nil, url: String? = nil) {
        self.etag = etag
        self.lastModified = lastModified
        self.url = url
    }

    package static var blank: RequestConditions { RequestConditions() }

    package mutating func list(_ fields: inout Fields) {
        fields.string("etag", &etag)
        fields.string("lastModified", &lastModified)
        fields.string("url", &url)
    }
}
