package import JSONCoding

/// The stored part of a response's header: the fields for computing freshness and for revalidation.
package struct ResponseRecord: Equatable, Sendable, FieldList {
    /// The maximum length of a header field's value, in bytes. No useful entity tag or type is longer.
    package static let longestValue = 4096

    package var status: Int
    /// The start of the request, in milliseconds since 1970.
    package var requestedAt: Int
    /// The arrival of the complete header, in milliseconds since 1970.
    package var receivedAt: Int
    /// The origin's text of the header fields of these names; fields of the same name are joined by ", ".
    package var date, age, cacheControl, expires, etag, lastModified, vary, contentType: String?
    /// The URL, without a path, of the server that sent the body, if redirects led to another server than the requested
    /// one.
    package var servedBy: String?
    /// The redirects that led to the response, in order.
    package var redirects: [Redirect]
    /// The URL that the redirects led to, to which the validators belong; nil without redirects.
    package var finalURL: String?

    package init(
        status: Int = 200, requestedAt: Int, receivedAt: Int, date: String? = nil, age: String? = nil,
        cacheControl: String? = nil, expires: String? = nil, etag: String? = nil, lastModified: String? = nil,
        vary: String? = nil, contentType: String? = nil, servedBy: String? = nil, redirects: [Redirect] = [],
        finalURL: String? = nil
    ) {
        self.status = status
        self.requestedAt = requestedAt
        self.receivedAt = receivedAt
        self.date = date
        self.age = age
        self.cacheControl = cacheControl
        self.expires = expires
        self.etag = etag
        self.lastModified = lastModified
        self.vary = vary
        self.contentType = contentType
        self.servedBy = servedBy
        self.redirects = redirects
        self.finalURL = finalURL
    }

    /// The request fields that select the response or one of the redirects to it (`Vary`), joined by ", "; nil for
    /// none.
    package var selectingFields: String? {
        if redirects.isEmpty { return vary }
        let lists = (redirects.map(\.response.vary) + [vary]).compactMap { $0 }
        return lists.isEmpty ? nil : lists.joined(separator: ", ")
    }

    package var textBytes: Int {
        [date, age, cacheControl, expires, etag, lastModified, vary, contentType, servedBy, finalURL]
            .reduce(0) { $0 + ($1?.utf8.count ?? 0) } + redirects.reduce(0) { $0 + $1.response.textBytes }
    }

    package static var blank: ResponseRecord { ResponseRecord(requestedAt: 0, receivedAt: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("status", &status, in: 100...999)
        fields.integer("requestedAt", &requestedAt, in: 0...JSONReader.maximumInteger)
        fields.integer("receivedAt", &receivedAt, in: 0...JSONReader.maximumInteger)
        fields.string("date", &date, most: Self.longestValue)
        fields.string("age", &age, most: Self.longestValue)
        fields.string("cacheControl", &cacheControl, most: Self.longestValue)
        fields.string("expires", &expires, most: Self.longestValue)
        fields.string("etag", &etag, most: Self.longestValue)
        fields.string("lastModified", &lastModified, most: Self.longestValue)
        fields.string("vary", &vary, most: Self.longestValue)
        fields.string("contentType", &contentType, most: Self.longestValue)
        fields.string("servedBy", &servedBy, most: SourceURL.maximumLength)
        fields.objects("redirects", orNone: &redirects, most: Redirect.most)
        fields.string("finalURL", &finalURL, most: SourceURL.maximumLength)
    }
}

/// A redirect that led to a response. It is a cacheable response of its own (RFC 9110, section 15.4), so its header
/// limits the use of what it led to.
package struct Redirect: Equatable, Sendable, FieldList {
    /// The maximum number of redirects that lead to a response.
    package static let most = 5
    /// The maximum length of a field's value, in bytes. A longer one counts as its strictest value.
    package static let longestValue = 512

    /// The redirect as a response of its own, with the fields that count for a cache.
    package private(set) var response: ResponseRecord

    /// Keeps the fields of a redirect's header that count for a cache.
    package init(_ response: ResponseRecord) {
        func isShort(_ value: String) -> Bool { value.utf8.count <= Self.longestValue }
        self.response = ResponseRecord(
            status: response.status, requestedAt: response.requestedAt, receivedAt: response.receivedAt,
            date: response.date.flatMap { isShort($0) ? $0 : nil },
            age: response.age.flatMap { isShort($0) ? $0 : nil },
            cacheControl: response.cacheControl.map { isShort($0) ? $0 : "no-store" },
            expires: response.expires.map { isShort($0) ? $0 : "0" },
            vary: response.vary.map { isShort($0) ? $0 : "*" })
    }

    package static var blank: Redirect { Redirect(ResponseRecord(status: 302, requestedAt: 0, receivedAt: 0)) }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("status", &response.status, in: 300...399)
        fields.integer("requestedAt", &response.requestedAt, in: 0...JSONReader.maximumInteger)
        fields.integer("receivedAt", &response.receivedAt, in: 0...JSONReader.maximumInteger)
        fields.string("date", &response.date, most: Self.longestValue)
        fields.string("age", &response.age, most: Self.longestValue)
        fields.string("cacheControl", &response.cacheControl, most: Self.longestValue)
        fields.string("expires", &response.expires, most: Self.longestValue)
        fields.string("vary", &response.vary, most: Self.longestValue)
    }
}
