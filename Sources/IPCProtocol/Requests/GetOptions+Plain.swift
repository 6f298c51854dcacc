extension GetOptions {
    /// Options of which every field has a fixed size: what most requests ask for. They are taken out and compared without a
    /// reference being counted, which whoever looks something up by its options does each time.
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

    /// All that these options say; nil when that is also headers, credentials or a name of the original.
    package var plain: Plain? {
        if !headers.isEmpty || credentials != nil || cacheKey != nil { return nil }
        return Plain(
            representation: representation, quality: quality, variant: variant, delivery: delivery, cache: cache,
            staleFirst: staleFirst, storage: storage, priority: priority, retryFailed: retryFailed, progress: progress,
            progressive: progressive, timeoutMs: timeoutMs, totalTimeoutMs: totalTimeoutMs, cookies: cookies,
            allowInvalidCertificates: allowInvalidCertificates)
    }
}
