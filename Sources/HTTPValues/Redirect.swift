package import JSONCoding

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
