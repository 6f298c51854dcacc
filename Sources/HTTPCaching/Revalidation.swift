package import HTTPValues

extension ResponseRecord {
    /// What asks the origin whether the response is still good (RFC 9111, section 4.3.1); nil when it has no validator.
    package var conditions: RequestConditions? {
        // "*" would ask whether there is any response at all.
        let tag = etag.flatMap { Self.isSendable($0) && $0 != "*" ? $0 : nil }
        let date = lastModified.flatMap { Self.isSendable($0) ? $0 : nil }
        return tag == nil && date == nil ? nil : RequestConditions(etag: tag, lastModified: date)
    }

    /// What a request for the rest of the body may name in `If-Range` (RFC 9110, section 13.1.5): an entity tag that is
    /// not weak, else a last change that is a minute older than the response (sections 8.8.3 and 8.8.2.2); nil when the
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

    /// The stored response after the origin has confirmed it with a 304: what the 304 says replaces what was said before,
    /// but the body, its type and the status stay (RFC 9111, sections 3.2 and 4.3.4). Date and age are those of the 304,
    /// even where it has none: they belong to the message.
    package func refreshed(by notModified: ResponseRecord) -> ResponseRecord {
        var record = notModified
        record.status = status
        record.cacheControl = notModified.cacheControl ?? cacheControl
        record.expires = notModified.expires ?? expires
        record.etag = notModified.etag ?? etag
        record.lastModified = notModified.lastModified ?? lastModified
        record.vary = notModified.vary ?? vary
        record.contentType = contentType
        // Whoever confirms a body has not sent it.
        record.servedBy = servedBy
        return record
    }

    /// Whether a value can stand in a request's header.
    private static func isSendable(_ value: String) -> Bool {
        !value.isEmpty && value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }
}
