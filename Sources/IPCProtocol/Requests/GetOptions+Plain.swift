extension GetOptions {
    /// The options whose fields have a fixed size; most requests have no others. Each look-up by options copies and
    /// compares them, which without references needs no retain and release.
    package struct Plain: Equatable, Sendable {
        let representation: Representation
        let quality: Int
        let variant: Variant
        let delivery: Delivery
        let cache: CacheMode
        let staleFirst: Bool
        let storage: Storage
        let priority: Priority
        let retryFailed: Bool
        let progress: Bool
        let progressive: Bool
        let timeoutMs: Int
        let totalTimeoutMs: Int
        let cookies: Bool
        let allowInvalidCertificates: Bool
    }

    /// These options as `Plain`; nil when they include headers, credentials or a `cacheKey`.
    package var plain: Plain? {
        if !headers.isEmpty || credentials != nil || cacheKey != nil { return nil }
        return Plain(
            representation: representation, quality: quality, variant: variant, delivery: delivery, cache: cache,
            staleFirst: staleFirst, storage: storage, priority: priority, retryFailed: retryFailed, progress: progress,
            progressive: progressive, timeoutMs: timeoutMs, totalTimeoutMs: totalTimeoutMs, cookies: cookies,
            allowInvalidCertificates: allowInvalidCertificates)
    }
}
