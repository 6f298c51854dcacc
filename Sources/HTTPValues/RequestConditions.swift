package import JSONCoding

/// The validators of a stored response, sent so that its origin answers 304 while it is still current (RFC 9110,
/// section 13.1).
package struct RequestConditions: Equatable, Sendable {
    /// The value of `If-None-Match`.
    package var etag: String?
    /// The value of `If-Modified-Since`.
    package var lastModified: String?

    /// Creates conditions; at least one must be given.
    package init(etag: String? = nil, lastModified: String? = nil) {
        self.etag = etag
        self.lastModified = lastModified
    }
}

extension RequestConditions: FieldList {
    package static var blank: RequestConditions { RequestConditions() }

    package mutating func list(_ fields: inout Fields) {
        fields.string("etag", &etag)
        fields.string("lastModified", &lastModified)
    }
}
