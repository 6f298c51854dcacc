package import JSONCoding

/// The closed set of error codes on the wire, in statistics and in exit messages.
public enum ErrorCode: String, CaseIterable, Sendable {
    // Invalid messages.
    case badFrame = "bad-frame"
    case badRequest = "bad-request"
    case unsupportedVersion = "unsupported-version"
    // Policy.
    case unsupportedScheme = "unsupported-scheme"
    case forbiddenAddress = "forbidden-address"
    case forbidden
    // The outcome of the request.
    case notCached = "not-cached"
    case recentlyFailed = "blacklisted"
    case cancelled
    case shuttingDown = "shutting-down"
    case overloaded
    case quotaExceeded = "quota-exceeded"
    // The download.
    case hostUnavailable = "host-unavailable"
    case dnsFailed = "dns-failed"
    case connectFailed = "connect-failed"
    case tlsFailed = "tls-failed"
    case timeout
    case tooManyRedirects = "too-many-redirects"
    case httpStatus = "http-status"
    case transferFailed = "transfer-failed"
    case tooLarge = "too-large"
    // The image.
    case unsupportedFormat = "unsupported-format"
    case truncated
    case decodeFailed = "decode-failed"
    case tooManyPixels = "too-many-pixels"
    case emptyImage = "empty-image"
    case decoderCrashed = "decoder-crashed"
    case decoderUnavailable = "decoder-unavailable"
    // The broker.
    case outOfMemory = "out-of-memory"
    case diskFailed = "disk-failed"
    case `internal`

    /// Whether the same request may succeed later, unchanged. For `http-status` that depends on the status: see
    /// `WireError.isRetryable`.
    public var isRetryable: Bool {
        switch self {
        case .shuttingDown, .overloaded, .quotaExceeded, .hostUnavailable, .dnsFailed, .connectFailed, .timeout,
            .transferFailed, .decoderUnavailable, .outOfMemory, .diskFailed, .internal:
            true
        case .badFrame, .badRequest, .unsupportedVersion, .unsupportedScheme, .forbiddenAddress, .forbidden,
            .notCached, .recentlyFailed, .cancelled, .tlsFailed, .tooManyRedirects, .httpStatus, .tooLarge,
            .unsupportedFormat, .truncated, .decodeFailed, .tooManyPixels, .emptyImage, .decoderCrashed:
            false
        }
    }
}

/// An error as sent over the wire.
public struct WireError: Error, Hashable, Sendable {
    /// The kind of error.
    public var code: ErrorCode
    /// A description for people: one English sentence.
    public var message: String
    /// The origin's status; only with `http-status`.
    public var httpStatus: Int?
    /// The delay before a retry, in milliseconds; nil when it is unknown.
    public var retryAfterMs: Int?
    /// The code of the first failure; only with `blacklisted`.
    public var cause: ErrorCode?
    /// Whether this failure added the URL to the recent failures (the wire's failed list).
    public var recentlyFailed = false

    /// Creates an error with the members that apply to it.
    public init(_ code: ErrorCode, _ message: String, httpStatus: Int? = nil, retryAfterMs: Int? = nil) {
        self.code = code
        self.message = message
        self.httpStatus = httpStatus
        self.retryAfterMs = retryAfterMs
    }

    /// Whether the same request may succeed later, unchanged. The retryable HTTP statuses are 408, 425, 429 and 5xx
    /// except 501 and 505 (RFC 9110, section 15; RFC 8470; RFC 6585).
    public var isRetryable: Bool {
        guard code == .httpStatus, let httpStatus else { return code.isRetryable }
        return [408, 425, 429].contains(httpStatus)
            || (500...599).contains(httpStatus) && ![501, 505].contains(httpStatus)
    }
}

extension WireError: FieldList {
    package static var blank: WireError { WireError(.internal, "") }

    package mutating func list(_ fields: inout Fields) {
        fields.choice("code", &code)
        fields.string("message", &message, .optional)
        fields.constant("retryable", isRetryable)
        fields.integer("httpStatus", &httpStatus, in: 0...999)
        fields.integer("retryAfterMs", &retryAfterMs, in: 0...Int.max)
        fields.choice("cause", &cause)
        fields.flag("blacklisted", &recentlyFailed)
    }
}
