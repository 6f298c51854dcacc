import ImageBrokerClient
import JSONCoding
import WebServing

/// Why a request over HTTP has no image.
struct HTTPProblem: Error, Equatable {
    var status: Int
    var message: String
    /// The time until another attempt makes sense, in seconds.
    var retryAfter: Int?

    init(_ status: Int, _ message: String, retryAfter: Int? = nil) {
        (self.status, self.message, self.retryAfter) = (status, message, retryAfter)
    }

    init(_ message: String) { self.init(400, message) }

    init(_ error: ClientError) {
        guard case .refused(let refusal) = error else {
            self.init(503, "\(error)", retryAfter: 1)
            return
        }
        let status = Self.status(of: refusal)
        let seconds = refusal.retryAfterMs.map { max(1, ($0 + 999) / 1000) } ?? 1
        self.init(status, "\(error)", retryAfter: status == 503 ? seconds : nil)
    }

    /// The status for each code of the protocol. A remembered failure has that of the first one.
    private static func status(of error: WireError) -> Int {
        switch error.cause ?? error.code {
        case .badRequest, .unsupportedScheme: 400
        case .forbidden, .forbiddenAddress: 403
        case .notCached: 404
        case .tooLarge: 413
        case .unsupportedFormat: 415
        case .truncated, .decodeFailed, .tooManyPixels, .emptyImage, .decoderCrashed: 422
        case .badFrame, .unsupportedVersion, .internal: 500
        case .httpStatus: error.httpStatus.map { (400...499).contains($0) } == true ? 404 : 502
        case .recentlyFailed, .dnsFailed, .connectFailed, .tlsFailed, .tooManyRedirects, .transferFailed: 502
        case .timeout: 504
        case .cancelled, .shuttingDown, .overloaded, .quotaExceeded, .hostUnavailable, .decoderUnavailable,
            .outOfMemory, .diskFailed:
            503
        }
    }

    /// The answer, with Imaginary's object as its body.
    var answer: WebAnswer {
        var answer = WebAnswer(status) {
            $0.member("message", message)
            $0.member("status", status)
        }
        if let retryAfter { answer.fields.append(WebAnswer.Field("Retry-After", "\(retryAfter)")) }
        if status == 405 { answer.fields.append(WebAnswer.Field("Allow", "GET, HEAD, POST")) }
        return answer
    }
}

extension WebAnswer {
    /// An answer of a JSON object that is not to be stored.
    init(_ status: Int, members: (inout JSONWriter) -> Void) {
        var writer = JSONWriter()
        writer.object(members)
        self.init(status, contentType: "application/json", writer.bytes)
        fields.append(Field("Cache-Control", "no-store"))
    }
}
