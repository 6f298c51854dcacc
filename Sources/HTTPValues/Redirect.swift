package import JSONCoding

/// A redirect that led to a response. It is a cacheable response of its own (RFC 9110, section 15.4), so its header
/// limits the use of what it led to.
package struct Redirect: Equatable, Sendable, FieldList {
    /// The maximum number of redirects that lead to a response.
    package static let most = 5
    /// The maximum length of a field's value, in bytes. A longer one counts as its strictest value.
    package static let longestValue = 512

    package private(set) var status: Int
    /// The start of the request, in milliseconds since 1970.
    package private(set) var requestedAt: Int
    /// The arrival of the header, in milliseconds since 1970.
    package private(set) var receivedAt: Int
    /// The origin's text of the header fields of these names.
    package private(set) var date, age, cacheControl, expires, vary: String?

    var textBytes: Int { [date, age, cacheControl, expires, vary].reduce(0) { $0 + ($1?.utf8.count ?? 0) } }

    package static var blank: Redirect { Redirect(status: 302, requestedAt: 0, receivedAt: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("status", &status, in: 300...399)
        fields.integer("requestedAt", &requestedAt, in: 0...JSONReader.maximumInteger)
        fields.integer("receivedAt", &receivedAt, in: 0...JSONReader.maximumInteger)
        fields.string("date", &date, most: Self.longestValue)
        fields.string("age", &age, most: Self.longestValue)
        fields.string("cacheControl", &cacheControl, most: Self.longestValue)
        fields.string("expires", &expires, most: Self.longestValue)
        fields.string("vary", &vary, most: Self.longestValue)
    }
}
