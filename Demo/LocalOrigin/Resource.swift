public import Foundation

extension LocalOrigin {
    /// How an answer to a request for a part goes wrong.
    public enum RangeConduct: Sendable {
        /// Not at all.
        case right
        /// The whole body comes.
        case ignored
        /// `Content-Range` begins so many bytes later than what was asked for, and so does the part.
        case shifted(Int)
        /// `Content-Range` has another length of the whole body.
        case wrongTotal(Int)
        /// `Content-Range` says "*" for the whole body's length.
        case unknownTotal
        /// `Content-Range` is this.
        case contentRange(String)
        /// Only so many bytes of the part come, as the answer says itself.
        case atMost(Int)
        /// The part comes as the only one of several.
        case multipart
        /// 416, though there is such a part.
        case refused
    }
}

extension LocalOrigin.Response {
    /// A body with its validators, answered as HTTP has it: 304 where the request's conditions say that nothing has
    /// changed, 206 or 416 where it asks for a part up to the end and `If-Range` does not object, else 200
    /// (RFC 9110, section 13.2.2).
    public static func resource(
        _ body: [UInt8], etag: String? = nil, lastModified: String? = nil, cacheControl: String? = nil,
        contentType: String = "application/octet-stream", ranges conduct: LocalOrigin.RangeConduct = .right,
        for request: LocalOrigin.Request
    ) -> LocalOrigin.Response {
        var response = ok(body, contentType: contentType)
        let fields = [
            ("Date", httpDate(Date())), ("ETag", etag), ("Last-Modified", lastModified),
            ("Cache-Control", cacheControl), ("Accept-Ranges", "bytes"),
        ]
        response.headers += fields.compactMap { (name, value) in value.map { .init(name, $0) } }
        if isUnchanged(etag: etag, lastModified: lastModified, for: request) {
            return LocalOrigin.Response(status: 304, headers: response.headers)
        }
        let condition = request["If-Range"]
        guard let range = request["Range"], range.hasPrefix("bytes="), range.hasSuffix("-"),
            let first = Int(range.dropFirst(6).dropLast()),
            condition == nil || condition == (condition?.hasPrefix("\"") == true ? etag : lastModified)
        else { return response }
        return first < body.count ? response.part(from: first, conduct) : response.unsatisfied()
    }

    /// A date as HTTP writes it.
    public static func httpDate(_ date: Date) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: date)
    }

    private static func isUnchanged(etag: String?, lastModified: String?, for request: LocalOrigin.Request) -> Bool {
        // The tag takes precedence, and weak ones are compared like strong ones here.
        let opaque = { (tag: Substring) in tag.hasPrefix("W/") ? tag.dropFirst(2) : tag }
        if let tags = request["If-None-Match"] {
            return etag.map { etag in
                tags.split(separator: ",").contains { opaque($0.drop { $0 == " " }) == opaque(etag[...]) }
            } ?? false
        }
        return lastModified != nil && request["If-Modified-Since"] == lastModified
    }

    private func unsatisfied() -> LocalOrigin.Response {
        let kept = headers.filter { $0.name != "Content-Type" }
        return .status(416, headers: kept + [.init("Content-Range", "bytes */\(body.count)")])
    }

    private func part(from first: Int, _ conduct: LocalOrigin.RangeConduct) -> LocalOrigin.Response {
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
