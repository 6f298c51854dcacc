package import HTTPValues
import JSONCoding

/// The fields of a request that let it end sooner: at least one of them. A reference, because most requests have none
/// and are copied often.
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
    static let mostRetries = 100
    static let mostAlternatives = 4

    package static func == (left: RequestTerms, right: RequestTerms) -> Bool {
        left === right
            || left.maxAgeSeconds == right.maxAgeSeconds && left.retries == right.retries
                && left.alternatives == right.alternatives
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
