package import HTTPValues

// Conditional requests, and the response after a 304. Whether one is made is decided by `CacheDecision`.

extension ResponseRecord {
    /// The conditions for revalidating the response (RFC 9111, section 4.3.1); nil when it has no validator.
    package var conditions: RequestConditions? {
        // "*" would match any response at all.
        let tag = etag.flatMap { Self.isSendable($0) && $0 != "*" ? $0 : nil }
        let date = lastModified.flatMap { Self.isSendable($0) ? $0 : nil }
        return tag == nil && date == nil ? nil : RequestConditions(etag: tag, lastModified: date, url: finalURL)
    }

    /// The value of `If-Range` for requesting the rest of the body (RFC 9110, section 13.1.5): a strong entity tag,
    /// else a modification date at least a minute older than the response (sections 8.8.3 and 8.8.2.2); nil when the
    /// response has neither.
    package var strongValidator: String? {
        if let etag, Self.isSendable(etag) {
            let inner = etag.dropFirst().dropLast()
            let isStrong = etag.utf8.count >= 2 && etag.hasPrefix("\"") && etag.hasSuffix("\"") && !inner.contains("\"")
            return isStrong ? etag : nil
        }
        guard let lastModified, let date, Self.isSendable(lastModified),
            let changed = HTTPDate.seconds(lastModified, now: receivedAt / 1000),
            let made = HTTPDate.seconds(date, now: receivedAt / 1000), made - changed >= 60
        else { return nil }
        return lastModified
    }

    /// Returns the stored response after the origin has confirmed it with a 304: the fields of the 304 replace the
    /// stored ones, but the body, its type and the status stay (RFC 9111, sections 3.2 and 4.3.4). Date and age are
    /// those of the 304, even if it has none, because they belong to the message.
    package func refreshed(by notModified: ResponseRecord) -> ResponseRecord {
        var record = notModified
        record.status = status
        record.cacheControl = notModified.cacheControl ?? cacheControl
        record.expires = notModified.expires ?? expires
        record.etag = notModified.etag ?? etag
        record.lastModified = notModified.lastModified ?? lastModified
        record.vary = notModified.vary ?? vary
        record.contentType = contentType
        // The server that confirms a body need not be the one that sent it.
        record.servedBy = servedBy
        return record
    }

    private static func isSendable(_ value: String) -> Bool {
        !value.isEmpty && value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }
}
