public import HTTPValues

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
