internal import CWebServer
internal import Glibc
import LinuxSystem

/// The listening socket and the threads that serve it: libmicrohttpd with one thread for each connection.
enum WebServer {
    /// The maximum number of connections.
    private static let connections: UInt32 = 32
    /// The seconds of silence after which a connection is closed.
    private static let silenceSeconds: UInt32 = 15

    /// Fields of every response. The page loads nothing from elsewhere, runs no script of others and cannot be framed.
    private static let fields: [StaticString] = [
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy", "same-origin",
        "X-Content-Type-Options", "nosniff",
        "Referrer-Policy", "no-referrer",
        "Cache-Control", "no-store",
    ]

    /// The exporter, and the fields as the server wants them. Both live as long as the process.
    private final class Context: Sendable {
        let exporter: Exporter
        init(_ exporter: Exporter) { self.exporter = exporter }
    }

    /// Blocks the signals that end the program, for this thread and later ones.
    static func blockSignals() { cwebserver_block_signals() }

    /// Waits for a signal that ends the program.
    static func waitForSignal() { cwebserver_wait_for_signal() }

    /// Opens a listening socket at a numeric address. Returns it with its port, which is another one for port 0.
    ///
    /// - Throws: `SystemError` of `bind`.
    static func listen(at address: String, port: UInt16) throws(SystemError) -> (descriptor: Int32, port: UInt16) {
        let descriptor = unsafe cwebserver_listen(address, port)
        if descriptor < 0 { throw SystemError("bind", code: -descriptor) }
        return (descriptor, cwebserver_port(descriptor))
    }

    /// Serves the connections of a listening socket on other threads.
    ///
    /// - Throws: `SystemError` of libmicrohttpd's start.
    static func start(_ descriptor: Int32, _ exporter: Exporter) throws(SystemError) {
        let pointers = UnsafeMutablePointer<UnsafePointer<CChar>?>.allocate(capacity: fields.count + 1)
        for (index, field) in fields.enumerated() { unsafe pointers[index] = unsafe characters(of: field) }
        unsafe pointers[fields.count] = nil
        let context = unsafe Unmanaged.passRetained(Context(exporter))
        let code = unsafe cwebserver_start(
            descriptor, connections, silenceSeconds, UnsafePointer(pointers),
            { context, method, path, host, response in
                guard let context = unsafe context, let method = unsafe method, let path = unsafe path,
                    let response = unsafe response
                else { return }
                let exporter = unsafe Unmanaged<Context>.fromOpaque(context).takeUnretainedValue().exporter
                let page = unsafe exporter.answer(
                    method: String(cString: method), path: String(cString: path),
                    host: host.map { unsafe String(cString: $0) })
                unsafe WebServer.write(page, to: response)
            }, context.toOpaque())
        if code != 0 { throw SystemError("MHD_start_daemon", code: code) }
    }

    private static func write(_ page: Page, to response: UnsafeMutablePointer<cwebserver_response>) {
        guard let body = unsafe malloc(max(page.body.count, 1)) else { return }
        unsafe page.body.withUnsafeBytes {
            unsafe body.copyMemory(from: $0.baseAddress ?? UnsafeRawPointer(body), byteCount: $0.count)
        }
        unsafe response.pointee.status = UInt32(page.status)
        unsafe response.pointee.body = unsafe body
        unsafe response.pointee.length = page.body.count
        unsafe response.pointee.content_type = unsafe characters(of: page.contentType.value)
    }

    private static func characters(of text: StaticString) -> UnsafePointer<CChar> {
        unsafe UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)
    }
}
