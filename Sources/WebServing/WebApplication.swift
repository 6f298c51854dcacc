package import LinuxSystem
import SharedCache

/// A request over HTTP whose header is complete.
package struct WebRequest: Sendable {
    package var method: String
    /// The path, without percent-encoding and query.
    package var path: String
    /// The target as the client wrote it, with its query.
    package var target: String
    /// One of the Host fields; nil without one.
    package var host: String?
    package var hostFields = 1
    /// The fields Accept, If-None-Match, and API-Key, which Imaginary has.
    package var accept: String?
    package var ifNoneMatch: String?
    package var apiKey: String?
    /// The stated length of the body; nil without one.
    package var length: Int?

    package init(method: String, path: String, target: String? = nil, host: String? = nil) {
        (self.method, self.path, self.target, self.host) = (method, path, target ?? path, host)
    }
}

package struct WebAnswer: Equatable, Sendable {
    package struct Field: Equatable, Sendable {
        package let name: String
        package let value: String
        package init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
    }

    package var status: Int
    package var fields: [Field]
    package var body: [UInt8]

    package init(_ status: Int, contentType: String, _ body: [UInt8]) {
        self.status = status
        fields = [Field("Content-Type", contentType)]
        self.body = body
    }

    package subscript(name: String) -> String? { fields.first { $0.name == name }?.value }

    /// The bytes of the answer as sent over a connection that ends with it.
    package func message(reason: String) -> [UInt8] {
        var head = "HTTP/1.1 \(status) \(reason)\r\nConnection: close\r\nContent-Length: \(body.count)\r\n"
        for field in fields { head += "\(field.name): \(field.value)\r\n" }
        return Array((head + "\r\n").utf8) + body
    }
}

/// Why a request is refused before it is complete.
package enum WebRefusal: Sendable {
    /// Its header or its body took too long.
    case tooSlow
    /// There are too many connections.
    case busy
    /// Its body is too long.
    case tooLarge
    /// There are too many bytes of bodies, or no descriptors.
    case noRoom
}

/// Answers requests. Its methods are called on the threads of the server's connections.
package protocol WebApplication: Sendable {
    var limits: ConnectionTable.Limits { get }
    /// Whether a request is a check of the health, for which connections are reserved.
    func isHealthCheck(_ request: WebRequest) -> Bool
    /// The answer to a request whose body is not wanted; nil to receive the body.
    func refuse(_ request: WebRequest) -> WebAnswer?
    /// The answer to a request. Bytes of the answer that are many are reserved first.
    func answer(_ request: WebRequest, _ exchange: Exchange) -> WebAnswer
    /// The answer to a request that is refused when it is complete, because there are too many.
    var busy: WebAnswer { get }
    /// The bytes of the answer to a request that is refused before it is complete; nil to end its connection.
    func refusal(_ reason: WebRefusal) -> [UInt8]?
}

/// A request with its body, which is received into a memfd, and the bytes that it and its answer take. One thread at a
/// time uses it: that of its connection.
package final class Exchange: Sendable {
    private struct State {
        var file: FileDescriptor?
        var length = 0
        /// The bytes that were taken from the budget.
        var taken = 0
    }

    private let state: Locked<State>
    private let limit: Int
    /// The bytes that the server may still take.
    private let budget: Locked<Int>

    package init(limit: Int, budget: Locked<Int>) {
        (self.limit, self.budget) = (limit, budget)
        state = Locked(State())
    }

    deinit {
        let taken = state.withLock { $0.taken }
        budget.withLock { $0 += taken }
    }

    /// Takes bytes from the budget until the end of the exchange. Returns whether there were as many.
    package func reserve(_ bytes: Int) -> Bool {
        let isTaken = budget.withLock { left in
            guard bytes <= left else { return false }
            left -= bytes
            return true
        }
        if isTaken { state.withLock { $0.taken += bytes } }
        return isTaken
    }

    /// Adds bytes to the body. Returns why they are refused; nil when they are not.
    package func append(_ bytes: UnsafeRawBufferPointer) -> WebRefusal? {
        guard bytes.count <= limit - state.withLock({ $0.length }) else { return .tooLarge }
        guard reserve(bytes.count) else { return .noRoom }
        return state.withLock { state in
            do throws(SystemError) {
                if state.file == nil { state.file = try WritableBuffer(name: "imgbroker-body").descriptor }
                unsafe try state.file?.write(bytes, at: state.length)
                state.length += bytes.count
                return nil
            } catch {
                return .noRoom
            }
        }
    }

    /// Seals the body. Returns its memfd; nil without a body.
    ///
    /// - Throws: `SystemError` of `fcntl`.
    package func seal() throws(SystemError) -> FileDescriptor? {
        let file = state.withLock { $0.file.take() }
        try file?.seal()
        return file
    }
}
