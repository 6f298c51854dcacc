extension LocalOrigin {
    /// A header field; responses may carry the same name twice.
    public struct Header: Hashable, Sendable {
        /// The name as sent.
        public var name: String
        /// The value as sent.
        public var value: String

        /// A field with its value.
        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// A request as it came.
    public struct Request: Sendable {
        /// The method: GET, as a rule.
        public let method: String
        /// The path without its query.
        public let path: String
        /// What stood after the first question mark.
        public let query: String
        /// The header fields in their order, names as they came.
        public let headers: [Header]
        /// Which request for this path this is: 1 for the first.
        public let number: Int
        /// The connection that it came on: 1 for the first that was accepted.
        public let connection: Int

        /// The value of the first header field with `name`, in whatever case.
        public subscript(_ name: String) -> String? {
            headers.first { $0.name.lowercased() == name.lowercased() }?.value
        }
    }

    /// What is answered, and in which way: a healthy answer, or one of the ways in which servers go wrong.
    public struct Response: Sendable {
        /// How the end of the body is marked.
        public enum Framing: Sendable {
            /// `Content-Length` with the body's length.
            case length
            /// `Content-Length` with another number; the connection closes after the body.
            case wrongLength(Int)
            /// Chunks, ended as they should be.
            case chunked
            /// Chunks; the connection closes where the last one is missing.
            case chunkedWithoutEnd
            /// A chunk whose length is no number.
            case chunkedWithGarbage
            /// The connection closes after the body.
            case untilClose
        }

        /// Where the answer waits until the path's gate is opened.
        public enum Hold: Sendable, Equatable {
            /// Nowhere.
            case never
            /// Before its first byte.
            case beforeHeaders
            /// When so many bytes of the body are sent.
            case afterBytes(Int)
        }

        /// How the answer is carried out.
        public enum Conduct: Sendable, Equatable {
            /// As described by the other members.
            case regular
            /// These bytes are sent as they are, and the connection closes.
            case raw([UInt8])
            /// Nothing is ever sent.
            case silent
            /// The connection is reset before the first byte.
            case reset
            /// A header that never ends: fields of 1,000 bytes.
            case endlessHeader
            /// A header field that never ends.
            case endlessField
        }

        /// The status code.
        public var status: Int
        /// Header fields besides those of the framing.
        public var headers: [Header]
        /// The body, encoded already where `headers` says so.
        public var body: [UInt8]
        /// How the end of the body is marked.
        public var framing = Framing.length
        /// Milliseconds before the first byte.
        public var delayMs = 0
        /// Where the answer waits for the gate.
        public var hold = Hold.never
        /// The body goes out in pieces of so many bytes ...
        public var pieceBytes = Int.max
        /// ... with so many milliseconds before each.
        public var pauseMs = 0
        /// The connection is reset when so many bytes of the body are sent.
        public var resetAfterBytes: Int?
        /// Whether further requests may come on the connection.
        public var keepsAlive = true
        /// How the answer is carried out.
        public var conduct = Conduct.regular

        /// An answer with `status`, fields and a body.
        public init(status: Int = 200, headers: [Header] = [], body: [UInt8] = []) {
            self.status = status
            self.headers = headers
            self.body = body
        }

        /// 200 with a body of `contentType`.
        public static func ok(_ body: [UInt8], contentType: String = "application/octet-stream") -> Response {
            Response(headers: [Header("Content-Type", contentType)], body: body)
        }

        /// `status` with a short text.
        public static func status(_ status: Int, headers: [Header] = []) -> Response {
            Response(
                status: status, headers: headers + [Header("Content-Type", "text/plain")],
                body: status == 204 || status == 304 ? [] : Array("status \(status)\n".utf8))
        }

        /// A redirect to `location`, which may be relative.
        public static func redirect(to location: String, status: Int = 302) -> Response {
            .status(status, headers: [Header("Location", location)])
        }

        /// 200 with the request's header fields as the body, one "Name: value" a line.
        public static func echo(_ request: Request) -> Response {
            .ok(Array(request.headers.map { "\($0.name): \($0.value)\n" }.joined().utf8), contentType: "text/plain")
        }

        /// Bytes sent as they are, after which the connection closes.
        public static func raw(_ bytes: [UInt8]) -> Response { Response().with { $0.conduct = .raw(bytes) } }
        /// Never a byte.
        public static var silent: Response { Response().with { $0.conduct = .silent } }
        /// A connection reset before the first byte.
        public static var reset: Response { Response().with { $0.conduct = .reset } }
        /// Header fields without end.
        public static var endlessHeader: Response { Response().with { $0.conduct = .endlessHeader } }
        /// One header field without end.
        public static var endlessField: Response { Response().with { $0.conduct = .endlessField } }

        /// The answer with some members changed: `.ok(body).with { $0.delayMs = 50 }`.
        public func with(_ change: (inout Response) -> Void) -> Response {
            var copy = self
            change(&copy)
            return copy
        }
    }

    /// What happened to the requests for one path.
    public struct Statistics: Equatable, Sendable {
        /// Requests that came.
        public internal(set) var requests = 0
        /// Requests being answered now.
        public internal(set) var concurrent = 0
        /// The most that were ever answered at once.
        public internal(set) var maxConcurrent = 0
        /// Requests that wait for the gate now.
        public internal(set) var held = 0
        /// Answers that were sent to their end.
        public internal(set) var completed = 0
        /// Answers whose asker closed the connection before their end.
        public internal(set) var abandoned = 0
        /// Bytes of bodies that were given to the socket.
        public internal(set) var bytesSent = 0
    }
}
