package import JSONCoding

/// A redirect that led to a response. It is a cacheable response of its own (RFC 9110, section 15.4), so its header limits
/// the use of what it led to.
package struct Redirect: Equatable, Sendable {
    /// The maximum number of redirects that lead to a response.
    package static let most = 5
    /// The maximum length of a field's value, in bytes. A longer one counts as its strictest value.
    package static let longestValue = 512

    /// The status code.
    package private(set) var status: Int
    /// The start of the request, in milliseconds since 1970.
    package private(set) var requestedAt: Int
    /// The arrival of the header, in milliseconds since 1970.
    package private(set) var receivedAt: Int
    /// `Date`. This field and those below hold the origin's text.
    package private(set) var date: String?
    /// `Age`.
    package private(set) var age: String?
    /// `Cache-Control`.
    package private(set) var cacheControl: String?
    /// `Expires`.
    package private(set) var expires: String?
    /// `Vary`.
    package private(set) var vary: String?

    /// The bytes of its texts.
    var textBytes: Int { [date, age, cacheControl, expires, vary].reduce(0) { $0 + ($1?.utf8.count ?? 0) } }

    /// Keeps the fields of a redirect's header that count for a cache.
    package init(_ response: ResponseRecord) {
        func isShort(_ value: String) -> Bool { value.utf8.count <= Self.longestValue }
        (status, requestedAt, receivedAt) = (response.status, response.requestedAt, response.receivedAt)
        date = response.date.flatMap { isShort($0) ? $0 : nil }
        age = response.age.flatMap { isShort($0) ? $0 : nil }
        cacheControl = response.cacheControl.map { isShort($0) ? $0 : "no-store" }
        expires = response.expires.map { isShort($0) ? $0 : "0" }
        vary = response.vary.map { isShort($0) ? $0 : "*" }
    }

    /// The redirect as a response of its own.
    package var response: ResponseRecord {
        ResponseRecord(
            status: status, requestedAt: requestedAt, receivedAt: receivedAt, date: date, age: age,
            cacheControl: cacheControl, expires: expires, vary: vary)
    }
}

extension Redirect: FieldList {
    package static var blank: Redirect { Redirect(.blank) }

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
