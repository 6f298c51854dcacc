internal import Foundation

/// A small HTTP/1.1 server on the loopback interface, for the demonstration, tests and benchmarks. It counts requests,
/// and responds correctly or in any of the ways in which servers fail.
///
/// One thread for each connection; connections are kept alive. It runs until `stop`. Its port stays reserved for as
/// long as this object exists, so connections to a stopped server are refused.
public final class LocalOrigin: Sendable {
    /// A header field.
    public typealias Header = OriginHeader
    /// A request.
    public typealias Request = OriginRequest
    /// A response.
    public typealias Response = OriginResponse
    /// Counts of the requests for one path.
    public typealias Statistics = OriginStatistics
    /// The error in a response to a range request.
    public typealias RangeConduct = OriginResponse.RangeConduct

    /// The address at which it listens.
    public let address: String
    /// The port at which it listens.
    public let port: Int

    private let state = Monitor(OriginState())
    private let handler: @Sendable (Request) -> Response
    private let listener: TCPSocket
    private let reservation: TCPSocket

    // MARK: Starting and stopping

    /// Listens at `address` and responds with the result of `handler`, which is called on the connection's thread.
    ///
    /// - Throws: `SocketFailure`.
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
                    Connection(state: state, handler: handler, socket: socket, number: number).run()
                    // Under the lock, so that `stop` shuts down no later socket with the same descriptor number.
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

    /// Responds to each path of `routes` with its response, and to others with 404.
    ///
    /// - Throws: `SocketFailure`.
    public convenience init(address: String = "127.0.0.1", routes: [String: Response]) throws {
        try self.init(address: address) { routes[$0.path] ?? .status(404) }
    }

    /// Serves the files of the folder at path `folder`, with entity tags.
    ///
    /// - Throws: `SocketFailure`.
    public convenience init(address: String = "127.0.0.1", folder: String) throws {
        try self.init(address: address) { Self.file($0, in: folder) }
    }

    /// Closes all connections and waits at most 5 seconds for the threads. Gates count as open.
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

    /// The URL of `path`, with another host name if given.
    public func url(_ path: String, host: String? = nil) -> String {
        "http://\(host ?? address):\(port)\(path)"
    }

    // MARK: Statistics

    /// The counts of the requests for `path` so far.
    public func statistics(_ path: String) -> Statistics {
        state.access { $0.statistics[path] ?? Statistics() }
    }

    /// All requests in the order of their arrival.
    public var requests: [Request] { state.access { $0.requests } }

    /// The requests for `path` in the order of their arrival.
    public func requests(_ path: String) -> [Request] {
        requests.filter { $0.path == path }
    }

    /// The number of accepted connections.
    public var connectionsAccepted: Int { state.access { $0.accepted } }

    /// Waits at most `seconds` until the counts for `path` satisfy `isTrue`. Returns whether they did.
    public func wait(for path: String, seconds: Double = 10, until isTrue: (Statistics) -> Bool) -> Bool {
        state.wait(seconds: seconds) { isTrue($0.statistics[path] ?? Statistics()) }
    }

    // MARK: Gates

    /// The gate of a path: responses with a `hold` wait there until it is opened.
    public struct Gate: Sendable {
        fileprivate let state: Monitor<OriginState>
        fileprivate let path: String

        /// Lets waiting and later responses pass.
        public func open() { state.access { _ = $0.openGates.insert(path) } }
        /// Makes later responses wait again.
        public func close() { state.access { _ = $0.openGates.remove(path) } }
    }

    /// The gate of `path`, which is closed at first.
    public func gate(_ path: String) -> Gate { Gate(state: state, path: path) }

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
