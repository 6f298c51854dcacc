internal import CTransfer
import HTTPValues

/// The settings that all transfers of a process share, besides the address policy.
struct NetworkSettings: Sendable {
    /// The URL (http, https or socks5h) of the proxy that all transfers go through; nil for none.
    var proxy: String?
    /// The user name and password for the proxy; nil for those in its URL, or none.
    var proxyCredentials: Credentials?
    /// Root certificates that are trusted besides those of the system; nil for none.
    var roots: RootCertificates?
}

/// Root certificates (PEM) in memory that libcurl may read as long as the process runs.
@safe struct RootCertificates: @unchecked Sendable {
    /// Never freed, because each handle refers to it.
    private let bytes: UnsafeBufferPointer<UInt8>

    /// A copy of `pem` and of the contents of the system's file, whose place the memory takes. The system's directory, in which
    /// libcurl looks up certificates by their names, is used besides.
    init(_ pem: String, systemFile: String?) {
        let text = Array((pem + "\n" + (systemFile ?? "")).utf8)
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: text.count)
        _ = unsafe copy.initialize(from: text)
        unsafe bytes = UnsafeBufferPointer(copy)
    }

    /// Has a handle trust them, for origins and for a proxy.
    func apply(to handle: UnsafeMutableRawPointer) {
        unsafe ctransfer_set_roots(handle, bytes.baseAddress, bytes.count)
    }
}
