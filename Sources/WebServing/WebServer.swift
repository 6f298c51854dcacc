internal import CWebServer
import HTTPValues
package import LinuxSystem
import SystemValues

/// The listening socket and the threads that serve it: libmicrohttpd with one thread for each connection.
package enum WebServer {
    /// The threads for each connection of the table: for those that were ended and are not closed yet. At the maximum
    /// the library closes new ones, which a burst of one client must not reach before these threads have run.
    private static let threads = 8

    /// The application and its connections, which live as long as the process.
    private final class Context: Sendable {
        let application: any WebApplication
        let connections: Connections
        let budget: Locked<Int>

        init(_ application: some WebApplication) throws(SystemError) {
            self.application = application
            budget = Locked(application.limits.totalBytes)
            connections = try Connections(application.limits) { application.refusal($0) }
        }

        static func from(_ pointer: UnsafeMutableRawPointer) -> Context {
            unsafe Unmanaged<Context>.fromOpaque(pointer).takeUnretainedValue()
        }
    }

    /// Blocks the signals that end the program, and that of a closed connection, for this thread and later ones.
    package static func blockSignals() throws(SystemError) -> Signals {
        try Signals([SignalNumber.interrupt, SignalNumber.terminate, SignalNumber.hangup, SignalNumber.brokenPipe])
    }

    /// Waits until a signal ends the program.
    package static func wait(for signals: Signals) {
        while [nil, SignalNumber.brokenPipe].contains(signals.next()) {
            UnixSocket.waitUntilReadable(signals.descriptor)
        }
    }

    /// Opens a listening socket at a numeric address. Returns it with its URL, which has another port for port 0.
    ///
    /// - Throws: `SystemError` of `bind`.
    package static func listen(
        at address: String, port: UInt16
    ) throws(SystemError) -> (descriptor: Int32, url: String) {
        let descriptor = unsafe cwebserver_listen(address, port)
        if descriptor < 0 { throw SystemError("bind", code: -descriptor) }
        let shown = address.contains(":") ? "[\(address)]" : address
        return (descriptor, "http://\(shown):\(cwebserver_port(descriptor))/")
    }

    /// Opens a listening Unix socket, in place of one without a listener.
    ///
    /// - Throws: `SystemError` of `bind` or `chown`.
    package static func listen(atPath path: String, mode: UInt32) throws(SystemError) -> Int32 {
        try UnixSocket.clear(path)
        let socket = try UnixSocket.listen(at: path, mode: mode, backlog: 64)
        // The server closes it.
        _ = unsafe Unmanaged.passRetained(socket)
        return socket.raw
    }

    /// Serves the connections of a listening socket on other threads.
    ///
    /// - Throws: `SystemError` of libmicrohttpd's start, or of `Connections`.
    package static func start(
        _ descriptor: Int32, _ application: some WebApplication
    ) throws(SystemError) {
        let limits = application.limits
        let context = try Context(application)
        let code = unsafe cwebserver_start(
            descriptor, UInt32(threads * limits.connections), limits.headerBytes, handlers,
            Unmanaged.passRetained(context).toOpaque())
        if code != 0 { throw SystemError("MHD_start_daemon", code: code) }
    }

    private static var handlers: cwebserver_handlers {
        unsafe cwebserver_handlers(
            opened: { context, descriptor, address, length in
                let bytes = unsafe Array(UnsafeBufferPointer(start: address, count: length))
                unsafe Context.from(context).connections.open(descriptor, from: IPAddress(bytes: bytes))
            },
            begin: { context, request, response in
                let server = unsafe Context.from(context)
                let descriptor = unsafe request.pointee.descriptor
                if let refusal = server.application.refuse(unsafe WebServer.read(request)) {
                    let answer = server.connections.answer(descriptor, isHealth: false) { refusal }
                    unsafe WebServer.write(answer ?? server.application.busy, to: response)
                    return nil
                }
                server.connections.beginBody(descriptor)
                let exchange = Exchange(limit: server.application.limits.bodyBytes, budget: server.budget)
                return unsafe Unmanaged.passRetained(exchange).toOpaque()
            },
            receive: { context, object, descriptor, bytes, length in
                let exchange = unsafe Unmanaged<Exchange>.fromOpaque(object).takeUnretainedValue()
                guard let reason = unsafe exchange.append(UnsafeRawBufferPointer(start: bytes, count: length)) else {
                    return 1
                }
                unsafe Context.from(context).connections.refuse(descriptor, reason)
                return 0
            },
            answer: { context, object, request, response in
                let exchange = unsafe Unmanaged<Exchange>.fromOpaque(object).takeUnretainedValue()
                let (server, descriptor) = unsafe (Context.from(context), request.pointee.descriptor)
                let read = unsafe WebServer.read(request)
                let isHealth = server.application.isHealthCheck(read)
                let answer = server.connections.answer(descriptor, isHealth: isHealth) {
                    server.application.answer(read, exchange)
                }
                unsafe WebServer.write(answer ?? server.application.busy, to: response)
            },
            finished: { _, object in
                unsafe Unmanaged<Exchange>.fromOpaque(object).release()
            },
            closed: { context, descriptor in
                unsafe Context.from(context).connections.close(descriptor)
            })
    }

    private static func read(_ request: UnsafePointer<cwebserver_request>) -> WebRequest {
        func text(_ characters: UnsafePointer<CChar>?) -> String? {
            unsafe characters.map { unsafe String(cString: $0) }
        }
        func field(_ name: String) -> String? { unsafe text(cwebserver_field(request, name)) }
        var result = WebRequest(
            method: unsafe text(request.pointee.method) ?? "", path: unsafe text(request.pointee.path) ?? "",
            target: unsafe text(request.pointee.target) ?? "", host: unsafe text(request.pointee.host))
        result.hostFields = unsafe Int(request.pointee.hosts)
        result.accept = field("Accept")
        result.ifNoneMatch = field("If-None-Match")
        result.apiKey = field("API-Key")
        result.length = field("Content-Length").flatMap { Int($0) }
        return result
    }

    private static func write(_ answer: WebAnswer, to response: UnsafeMutablePointer<cwebserver_response>) {
        let code = unsafe answer.body.withUnsafeBytes {
            unsafe cwebserver_set_body(response, UInt32(answer.status), $0.baseAddress, $0.count)
        }
        guard code == 0 else { return }
        for field in answer.fields { unsafe cwebserver_add_field(response, field.name, field.value) }
    }
}
