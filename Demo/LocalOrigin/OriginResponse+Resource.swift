public import Foundation

extension OriginResponse {
    /// The error in a response to a range request.
    public enum RangeConduct: Sendable {
        /// None.
        case right
        /// The whole body is sent.
        case ignored
        /// `Content-Range` and the part start this number of bytes after the requested position.
        case shifted(Int)
        /// `Content-Range` states this length of the whole body.
        case wrongTotal(Int)
        /// `Content-Range` states "*" as the length of the whole body.
        case unknownTotal
        /// `Content-Range` has this value.
        case contentRange(String)
        /// At most this number of bytes of the part is sent, with a matching `Content-Range`.
        case atMost(Int)
        /// The part is sent as a multipart body with one part.
        case multipart
        /// 416, although the range is satisfiable.
        case refused
    }
}

extension OriginResponse {
    /// The response to a request for a body with validators (RFC 9110, section 13.2.2): 304 when the request's
    /// conditions match, 206 or 416 for a range up to the end whose `If-Range` matches, else 200.
    public static func resource(
        _ body: [UInt8], etag: String? = nil, lastModified: String? = nil, cacheControl: String? = nil,
        contentType: String = "application/octet-stream", ranges conduct: RangeConduct = .right,
        for request: OriginRequest
    ) -> OriginResponse {
        var response = ok(body, contentType: contentType)
        let fields = [
            ("Date", httpDate(Date())), ("ETag", etag), ("Last-Modified", lastModified),
            ("Cache-Control", cacheControl), ("Accept-Ranges", "bytes"),
        ]
        response.headers += fields.compactMap { (name, value) in value.map { .init(name, $0) } }
        if isUnchanged(etag: etag, lastModified: lastModified, for: request) {
            return OriginResponse(status: 304, headers: response.headers)
        }
        let condition = request["If-Range"]
        guard let range = request["Range"], range.hasPrefix("bytes="), range.hasSuffix("-"),
            let first = Int(range.dropFirst(6).dropLast()),
            condition == nil || condition == (condition?.hasPrefix("\"") == true ? etag : lastModified)
        else { return response }
        return first < body.count ? response.part(from: first, conduct) : response.unsatisfied()
    }

    /// Formats a date as HTTP does.
    public static func httpDate(_ date: Date) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: date)
    }

    private static func isUnchanged(etag: String?, lastModified: String?, for request: OriginRequest) -> Bool {
        // The tag takes precedence; weak and strong tags are compared alike.
        let opaque = { (tag: Substring) in tag.hasPrefix("W/") ? tag.dropFirst(2) : tag }
        if let tags = request["If-None-Match"] {
            return etag.map { etag in
                tags.split(separator: ",").contains { opaque($0.drop { $0 == " " }) == opaque(etag[...]) }
            } ?? false
        }
        return lastModified != nil && request["If-Modified-Since"] == lastModified
    }

    private func unsatisfied() -> OriginResponse {
        let kept = headers.filter { $0.name != "Content-Type" }
        return .status(416, headers: kept + [.init("Content-Range", "bytes */\(body.count)")])
    }

    private func part(from first: Int, _ conduct: RangeConduct) -> OriginResponse {
        var (start, end, total, said) = (first, body.count, "\(body.count)", nil as String?)
        switch conduct {
        case .ignored: return self
        case .refused: return unsatisfied()
        case .right, .multipart: break
        case .shifted(let bytes): start = min(max(first + bytes, 0), end - 1)
        case .wrongTotal(let length): total = "\(length)"
        case .unknownTotal: total = "*"
        case .contentRange(let text): said = text
        case .atMost(let bytes): end = min(start + bytes, end)
        }
        var response = self
        response.status = 206
        response.body = Array(body[start..<end])
        let contentRange = said ?? "bytes \(start)-\(end - 1)/\(total)"
        guard case .multipart = conduct else {
            response.headers.append(.init("Content-Range", contentRange))
            return response
        }
        response.headers.removeAll { $0.name == "Content-Type" }
        response.headers.append(.init("Content-Type", "multipart/byteranges; boundary=part"))
        let opening = Array("--part\r\nContent-Range: \(contentRange)\r\n\r\n".utf8)
        response.body = opening + response.body + Array("\r\n--part--\r\n".utf8)
        return response
    }
}
