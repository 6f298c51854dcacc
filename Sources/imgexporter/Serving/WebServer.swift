internal import CWebServer
internal import Glibc
import HTTPValues
import LinuxSystem

/// The listening socket and the threads that serve it: libmicrohttpd with one thread for each connection.
enum WebServer {
    /// The maximum number of connections: those of the table, and those that were ended and are not closed yet. At the maximum the library
    /// closes new ones, so a burst of one client must not come to it before the threads of the ended ones have run.
    private static let connections = UInt32(8 * ConnectionTable.limit)

    /// Fields of every response. The page loads nothing from elsewhere, runs no script of others and cannot be framed.
    private static let fields: [StaticString] = [
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy", "same-origin",
        "X-Content-Type-Options", "nosniff",
        "Referrer-Policy", "no-referrer",
        "Cache-Control", "no-store",
    ]

    /// The exporter and its connections, which live as long as the process.
    private final class Context: Sendable {
        let exporter: Exporter
        let connections: Connections
        init(_ exporter: Exporter, _ connections: Connections) {
            self.exporter = exporter
            self.connections = connections
        }

        static func from(_ pointer: UnsafeMutableRawPointer) -> Context {
            unsafe Unmanaged<Context>.fromOpaque(pointer).takeUnretainedValue()
        }

        /// The answer to the request of a connection.
        func answer(
            _ descriptor: Int32, method: String, path: String, host: String?, hostFields: Int
        ) -> Page {
            let page = connections.answer(descriptor, isHealth: Resource(path: path) == .health) {
                exporter.answer(method: method, path: path, host: host, hostFields: hostFields)
            }
            return page ?? Page(503, line: "The server is busy: try again, or ask for /health.")
        }
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
    /// - Throws: `SystemError` of libmicrohttpd's start, or of `Connections`.
    static func start(_ descriptor: Int32, _ exporter: Exporter) throws(SystemError) {
        let pointers = UnsafeMutablePointer<UnsafePointer<CChar>?>.allocate(capacity: fields.count + 1)
        for (index, field) in fields.enumerated() { unsafe pointers[index] = unsafe characters(of: field) }
        unsafe pointers[fields.count] = nil
        let connections = try Connections()
        let context = unsafe Unmanaged.passRetained(Context(exporter, connections))
        let code = unsafe cwebserver_start(
            descriptor, Self.connections, UnsafePointer(pointers), handlers, context.toOpaque())
        if code != 0 { throw SystemError("MHD_start_daemon", code: code) }
    }

    private static var handlers: cwebserver_handlers {
        unsafe cwebserver_handlers(
            opened: { context, descriptor, address, length in
                guard let context = unsafe context, let address = unsafe address,
                    let address = unsafe IPAddress(bytes: Array(UnsafeBufferPointer(start: address, count: length)))
                else { return }
                unsafe Context.from(context).connections.open(descriptor, from: address)
            },
            answer: { context, request, response in
                guard let context = unsafe context, let request = unsafe request?.pointee,
                    let method = unsafe request.method, let path = unsafe request.path, let response = unsafe response
                else { return }
                let page = unsafe Context.from(context).answer(
                    request.descriptor, method: String(cString: method), path: String(cString: path),
                    host: request.host.map { unsafe String(cString: $0) }, hostFields: Int(request.hosts))
                unsafe WebServer.write(page, to: response)
            },
            closed: { context, descriptor in
                guard let context = unsafe context else { return }
                unsafe Context.from(context).connections.close(descriptor)
            })
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
