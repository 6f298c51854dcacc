internal import CTransfer
internal import Glibc
import HTTPValues
internal import IPCProtocol

/// Mapping of transfer errors to wire errors: the only place with both libcurl's codes and the wire's.
enum TransferError {
    static func code(for code: CURLcode) -> ErrorCode {
        switch code {
        case CURLE_UNSUPPORTED_PROTOCOL: .unsupportedScheme
        case CURLE_URL_MALFORMAT: .badRequest
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY: .dnsFailed
        case CURLE_COULDNT_CONNECT, CURLE_INTERFACE_FAILED, CURLE_QUIC_CONNECT_ERROR, CURLE_NO_CONNECTION_AVAILABLE:
            .connectFailed
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED, CURLE_SSL_CERTPROBLEM,
            CURLE_SSL_CIPHER, CURLE_PEER_FAILED_VERIFICATION, CURLE_USE_SSL_FAILED, CURLE_SSL_ENGINE_INITFAILED,
            CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CRL_BADFILE, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_PINNEDPUBKEYNOTMATCH,
            CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_CLIENTCERT:
            .tlsFailed
        case CURLE_OPERATION_TIMEDOUT: .timeout
        case CURLE_TOO_MANY_REDIRECTS: .tooManyRedirects
        case CURLE_FILESIZE_EXCEEDED: .tooLarge
        case CURLE_OUT_OF_MEMORY: .outOfMemory
        case CURLE_FAILED_INIT, CURLE_NOT_BUILT_IN, CURLE_BAD_FUNCTION_ARGUMENT, CURLE_UNKNOWN_OPTION,
            CURLE_SETOPT_OPTION_SYNTAX, CURLE_RECURSIVE_API_CALL, CURLE_FUNCTION_NOT_FOUND:
            .internal
        // All others occur in a transfer that has begun.
        default: .transferFailed
        }
    }

    /// The most characters of libcurl's message that are shown.
    private static let longestDetail = 200

    /// The error of a transfer from `host` that libcurl ended with `code` and the message `detail`.
    static func error(_ code: CURLcode, host: String, detail: String) -> WireError {
        let wireCode = Self.code(for: code)
        // It may quote what the origin has sent.
        let detail = String(detail.prefix(longestDetail))
        let reason = detail.isEmpty ? unsafe String(cString: curl_easy_strerror(code)) : detail
        // Most of libcurl's messages about hosts and connections say it all. With C's search, because Swift's would
        // bring two further libraries of the runtime into the package.
        if [.dnsFailed, .connectFailed].contains(wireCode), unsafe strstr(detail, host) != nil {
            return WireError(wireCode, "\(withoutFullStop(detail)).")
        }
        let sentence =
            switch wireCode {
            case .dnsFailed: "The host \(host) could not be found"
            case .connectFailed: "No connection to \(host) could be made"
            case .tlsFailed: "No secure connection to \(host) could be made"
            case .timeout: "\(host) did not answer in time"
            default: "The transfer from \(host) failed"
            }
        return WireError(wireCode, "\(sentence): \(withoutFullStop(reason)).")
    }

    static func forbiddenAddress(_ address: IPAddress, host: String) -> WireError {
        WireError(
            .forbiddenAddress,
            "\(host) has the address \(address), which downloads may not reach without the broker's --allow-address.")
    }

    static func tooLarge(limit: Int, host: String) -> WireError {
        WireError(.tooLarge, "The body from \(host) is longer than the \(limit) bytes of --max-download.")
    }

    static func diskFailed(_ reason: String, host: String) -> WireError {
        WireError(.diskFailed, "The body from \(host) could not be stored: \(reason).")
    }

    static func tooSlow(_ floor: SpeedFloor, host: String) -> WireError {
        WireError(.timeout, "\(host) sent fewer than \(floor.bytesPerSecond) bytes a second for \(floor.seconds) s.")
    }

    static func emptyBody(host: String) -> WireError { WireError(.emptyImage, "\(host) answered without a body.") }

    static func headerTooLong(host: String) -> WireError {
        WireError(.transferFailed, "The response header from \(host) is too long.")
    }

    /// The response is not HTTP, or is a part that was not requested.
    static func badResponse(_ what: String, host: String) -> WireError {
        WireError(.transferFailed, "\(host) answered with \(what).")
    }

    static func tooManyRedirects(limit: Int, host: String) -> WireError {
        WireError(.tooManyRedirects, "\(host) redirected the request for the \(limit + 1)th time.")
    }

    static func urlRefused(_ refusal: TransferURL.Refusal) -> WireError {
        switch refusal {
        case .scheme(let scheme): WireError(.unsupportedScheme, "URLs of scheme \(scheme) are not loaded.")
        case .malformed, .downgrade: WireError(.badRequest, "The URL is malformed.")
        }
    }

    static func redirectRefused(_ refusal: TransferURL.Refusal, host: String) -> WireError {
        switch refusal {
        case .scheme(let scheme):
            WireError(.unsupportedScheme, "\(host) redirected the request to the scheme \(scheme).")
        case .downgrade: WireError(.unsupportedScheme, "\(host) redirected the request from https to http.")
        case .malformed: badResponse("a redirect to what is no URL", host: host)
        }
    }

    static func httpStatus(_ status: Int, host: String, retryAfter: String?, now: Int) -> WireError {
        WireError(
            .httpStatus, "\(host) answered with status \(status).", httpStatus: status,
            retryAfterMs: retryAfter.flatMap { RetryAfter.milliseconds($0, now: now) })
    }

    private static func withoutFullStop(_ text: String) -> Substring {
        text.hasSuffix(".") ? text.dropLast() : text[...]
    }
}
