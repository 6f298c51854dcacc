internal import Foundation

/// A small HTTP/1.1 server on the loopback interface, for the demonstration and for tests: it counts what it is asked,
/// and answers well or in any of the ways in which servers go wrong.
///
/// One thread for each connection; connections are kept alive. It lives until `stop`; its port is nobody else's for as
/// long as this object exists, so whoever asks a server that was stopped is refused.
public final class LocalOrigin: Sendable {
    /// Why no server could be started.
    public struct StartFailure: Error, CustomStringConvertible {
        /// The call that failed.
        public let call: String
        /// Its error number.
        public let error: Int32
        /// The call and its error number.
        public var description: String { "\(call): error \(error)" }
    }

    struct State: Sendable {
        var stopped = false
        var threads = 0
        var accepted = 0
        var connections: [Int: TCPSocket] = [:]
        var requests: [Request] = []
        var statistics: [String: Statistics] = [:]
        var openGates: Set<String> = []
    }

    /// The address it listens at.
    public let address: String
    /// The port it listens at.
    public let port: Int

    let state = Monitor(State())
    let handler: @Sendable (Request) -> Response
    private let listener: TCPSocket
    private let reservation: TCPSocket

    // MARK: Starting and stopping

    /// Listens at `address` and answers each request with what `handler`, called on the connection's thread, returns.
    ///
    /// - Throws: `StartFailure`.
    public init(address: String = "127.0.0.1", _ handler: @escaping @Sendable (Request) -> Response) throws {
        self.address = address
        self.handler = handler
        (listener, reservation, port) = try TCPSocket.listen(at: address)
        startThread { [self] in
            while let socket = listener.accept() {
                let number = state.access {
                    $0.accepted += 1
                    $0.connections[$0.accepted] = socket
                    if $0.stopped { socket.shutDown() }
                    return $0.accepted
                }
                startThread { [self] in
                    Connection(origin: self, socket: socket, number: number).run()
                    // Under the lock, so that `stop` never touches a number that means another socket by then.
                    state.access {
                        $0.connections[number] = nil
                        socket.close()
                    }
                }
            }
        }
    }

    deinit {
        reservation.close()
    }

    /// Answers each path of `routes` with its response, any other with 404.
    ///
    /// - Throws: `StartFailure`.
    public convenience init(address: String = "127.0.0.1", routes: [String: Response]) throws {
        try self.init(address: address) { routes[$0.path] ?? .status(404) }
    }

    /// Serves the files of the folder at path `folder`, with entity tags.
    ///
    /// - Throws: `StartFailure`.
    public convenience init(address: String = "127.0.0.1", folder: String) throws {
        try self.init(address: address) { Self.file($0, in: folder) }
    }

    /// Closes everything and waits for the threads, for 5 seconds at most. Gates count as opened.
    public func stop() {
        let alreadyStopped = state.access { state in
            defer { state.stopped = true }
            state.connections.values.forEach { $0.shutDown() }
            return state.stopped
        }
        if alreadyStopped { return }
        listener.shutDown()
        if state.wait(seconds: 5, until: { $0.threads == 0 }) { listener.close() }
    }

    /// The URL of `path` here; under another name of the host, where given.
    public func url(_ path: String, host: String? = nil) -> String {
        "http://\(host ?? address):\(port)\(path)"
    }

    // MARK: What happened

    /// What happened to the requests for `path` until now.
    public func statistics(_ path: String) -> Statistics {
        state.access { $0.statistics[path] ?? Statistics() }
    }

    /// All requests in the order in which they came.
    public var requests: [Request] { state.access { $0.requests } }

    /// The requests for `path` in the order in which they came.
    public func requests(_ path: String) -> [Request] {
        requests.filter { $0.path == path }
    }

    /// How many connections were accepted.
    public var connectionsAccepted: Int { state.access { $0.accepted } }

    /// Waits until what happened to `path` satisfies `isTrue`, for `seconds` at most; whether it did.
    public func wait(for path: String, seconds: Double = 10, until isTrue: (Statistics) -> Bool) -> Bool {
        state.wait(seconds: seconds) { isTrue($0.statistics[path] ?? Statistics()) }
    }

    // MARK: Gates

    /// The gate of a path: answers with a `hold` wait there until it is opened.
    public struct Gate: Sendable {
        let origin: LocalOrigin
        let path: String

        /// Lets all pass, those that wait and those to come.
        public func open() { origin.state.access { _ = $0.openGates.insert(path) } }
        /// Lets those to come wait again.
        public func close() { origin.state.access { _ = $0.openGates.remove(path) } }
    }

    /// The gate of `path`, closed at first.
    public func gate(_ path: String) -> Gate { Gate(origin: self, path: path) }

    // MARK: Threads and files

    private func startThread(_ body: @escaping @Sendable () -> Void) {
        state.access { $0.threads += 1 }
        let thread = Thread { [state] in
            body()
            state.access { $0.threads -= 1 }
        }
        thread.stackSize = 512 << 10
        thread.start()
    }

    private static let contentTypes = [
        "jpg": "image/jpeg", "jpeg": "image/jpeg", "png": "image/png", "webp": "image/webp", "gif": "image/gif",
        "html": "text/html", "txt": "text/plain",
    ]

    private static func file(_ request: Request, in folder: String) -> Response {
        let name = request.path.removingPercentEncoding ?? request.path
        let path = folder + name
        guard !name.split(separator: "/").contains(".."), let data = FileManager.default.contents(atPath: path),
            let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        else { return .status(404) }
        let changed = (attributes[.modificationDate] as? Date)?.timeIntervalSince1970 ?? 0
        let tag = Header("ETag", "\"\(data.count)-\(Int(changed * 1000))\"")
        if request["If-None-Match"] == tag.value { return .status(304, headers: [tag]) }
        let fileExtension = path.split(separator: ".").last.map { $0.lowercased() } ?? ""
        var response = Response.ok(
            Array(data), contentType: contentTypes[fileExtension] ?? "application/octet-stream")
        response.headers.append(tag)
        return response
    }
}
