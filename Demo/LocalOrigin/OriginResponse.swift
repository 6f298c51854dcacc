/// A response of a `LocalOrigin`: correct, or wrong in one of the ways in which servers fail.
public struct OriginResponse: Sendable {
    /// The way in which the end of the body is marked.
    public enum Framing: Sendable {
        /// `Content-Length` with the body's length.
        case length
        /// `Content-Length` with another number; the connection closes after the body.
        case wrongLength(Int)
        /// Chunks with a correct end.
        case chunked
        /// Chunks; the connection closes instead of the last one.
        case chunkedWithoutEnd
        /// A chunk whose length is not a number.
        case chunkedWithGarbage
        /// The connection closes after the body.
        case untilClose
    }

    /// The point at which the response waits until the path's gate is opened.
    public enum Hold: Sendable, Equatable {
        /// None.
        case never
        /// Before its first byte.
        case beforeHeaders
        /// After this number of bytes of the body.
        case afterBytes(Int)
    }

    /// The way in which the response is sent.
    public enum Conduct: Sendable, Equatable {
        /// As the other members say.
        case regular
        /// These bytes are sent unchanged, then the connection closes.
        case raw([UInt8])
        /// Nothing is sent; the connection stays open.
        case silent
        /// The connection is reset before the first byte.
        case reset
        /// A header without an end: fields of 1,000 bytes.
        case endlessHeader
        /// A header field without an end.
        case endlessField
    }

    /// The status code.
    public var status: Int
    /// The header fields, except those of the framing.
    public var headers: [OriginHeader]
    /// The body, already encoded as `headers` say.
    public var body: [UInt8]
    /// The way in which the end of the body is marked.
    public var framing = Framing.length
    /// The delay before the first byte, in milliseconds.
    public var delayMs = 0
    /// The point at which the response waits for the gate.
    public var hold = Hold.never
    /// The size of the pieces in which the body is sent, in bytes.
    public var pieceBytes = Int.max
    /// The pause before each piece, in milliseconds.
    public var pauseMs = 0
    /// The number of bytes of the body after which the connection is reset; nil for never.
    public var resetAfterBytes: Int?
    /// Whether further requests may come on the connection.
    public var keepsAlive = true
    /// The way in which the response is sent.
    public var conduct = Conduct.regular

    /// Creates a response with `status`, fields and a body.
    public init(status: Int = 200, headers: [OriginHeader] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// 200 with a body of `contentType`.
    public static func ok(_ body: [UInt8], contentType: String = "application/octet-stream") -> OriginResponse {
        OriginResponse(headers: [OriginHeader("Content-Type", contentType)], body: body)
    }

    /// `status` with a short text.
    public static func status(_ status: Int, headers: [OriginHeader] = []) -> OriginResponse {
        OriginResponse(
            status: status, headers: headers + [OriginHeader("Content-Type", "text/plain")],
            body: status == 204 || status == 304 ? [] : Array("status \(status)\n".utf8))
    }

    /// A redirect to `location`, which may be relative.
    public static func redirect(to location: String, status: Int = 302) -> OriginResponse {
        .status(status, headers: [OriginHeader("Location", location)])
    }

    /// 200 with the request's header fields as the body, one "Name: value" a line.
    public static func echo(_ request: OriginRequest) -> OriginResponse {
        .ok(Array(request.headers.map { "\($0.name): \($0.value)\n" }.joined().utf8), contentType: "text/plain")
    }

    /// Bytes that are sent unchanged, after which the connection closes.
    public static func raw(_ bytes: [UInt8]) -> OriginResponse { OriginResponse().with { $0.conduct = .raw(bytes) } }
    /// No byte at all, on an open connection.
    public static var silent: OriginResponse { OriginResponse().with { $0.conduct = .silent } }
    /// A connection that is reset before the first byte.
    public static var reset: OriginResponse { OriginResponse().with { $0.conduct = .reset } }
    /// Header fields without an end.
    public static var endlessHeader: OriginResponse { OriginResponse().with { $0.conduct = .endlessHeader } }
    /// One header field without an end.
    public static var endlessField: OriginResponse { OriginResponse().with { $0.conduct = .endlessField } }

    /// The response with some members changed: `.ok(body).with { $0.delayMs = 50 }`.
    public func with(_ change: (inout OriginResponse) -> Void) -> OriginResponse {
        var copy = self
        change(&copy)
        return copy
    }
}
