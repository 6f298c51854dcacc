public import HTTPValues
import JSONCoding

/// The fields of a request that let it end sooner: at least one of them. A reference, because most requests have none and are
/// copied often.
package final class RequestTerms: Equatable, Sendable {
    /// The maximum age of a cached response in seconds; nil: as its origin permits.
    package let maxAgeSeconds: Int?
    /// The maximum number of retries of a failed transfer; nil: the broker's.
    package let retries: Int?
    /// The URLs to load when the one before fails.
    package let alternatives: [SourceURL]

    /// Creates terms; nil for none.
    package init?(maxAgeSeconds: Int?, retries: Int?, alternatives: [SourceURL]) {
        if maxAgeSeconds == nil, retries == nil, alternatives.isEmpty { return nil }
        (self.maxAgeSeconds, self.retries, self.alternatives) = (maxAgeSeconds, retries, alternatives)
    }

    /// The maximum `maxAgeSeconds`: 68 years.
    static let longestAge = Int(Int32.max)
    /// The maximum `retries`.
    static let mostRetries = 100
    /// The maximum number of alternatives.
    static let mostAlternatives = 4

    package static func == (left: RequestTerms, right: RequestTerms) -> Bool {
        left === right
            || left.maxAgeSeconds == right.maxAgeSeconds && left.retries == right.retries
                && left.alternatives == right.alternatives
    }
}

extension GetOptions {
    /// The maximum age in seconds of a cached response that answers the request, as `max-age` of a request (RFC 9111, section
    /// 5.2.1.1); nil: as its origin permits.
    public var maxAgeSeconds: Int? {
        get { terms?.maxAgeSeconds }
        set { terms = RequestTerms(maxAgeSeconds: newValue, retries: retries, alternatives: alternatives) }
    }
    /// The maximum number of retries of a failed transfer, 0 … 100, at most those of the broker; nil for these.
    public var retries: Int? {
        get { terms?.retries }
        set { terms = RequestTerms(maxAgeSeconds: maxAgeSeconds, retries: newValue, alternatives: alternatives) }
    }
    /// The URLs to load instead, at most 4, each when the one before fails.
    public var alternatives: [SourceURL] {
        get { terms?.alternatives ?? [] }
        set { terms = RequestTerms(maxAgeSeconds: maxAgeSeconds, retries: retries, alternatives: newValue) }
    }
}

extension Fields {
    /// The members `maxAgeSeconds`, `retries` and `alternatives`.
    mutating func terms(_ value: inout RequestTerms?) {
        guard isReading ? has("maxAgeSeconds") || has("retries") || has("alternatives") : value != nil else { return }
        var (age, retries, alternatives) = (value?.maxAgeSeconds, value?.retries, value?.alternatives ?? [])
        integer("maxAgeSeconds", &age, in: 0...RequestTerms.longestAge)
        integer("retries", &retries, in: 0...RequestTerms.mostRetries)
        if isReading ? has("alternatives") : !alternatives.isEmpty {
            let most = RequestTerms.mostAlternatives
            urls("alternatives", &alternatives, most: most, bytes: most * SourceURL.maximumLength)
        }
        if isReading {
            value = RequestTerms(maxAgeSeconds: age, retries: retries, alternatives: alternatives)
        }
    }
}
