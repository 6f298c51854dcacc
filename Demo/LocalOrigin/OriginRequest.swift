/// A header field; responses may carry the same name twice.
public struct OriginHeader: Hashable, Sendable {
    /// The name as sent.
    public var name: String
    /// The value as sent.
    public var value: String

    /// Creates a field with its value.
    public init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// A request to a `LocalOrigin`.
public struct OriginRequest: Sendable {
    /// The method, such as GET.
    public let method: String
    /// What the request line asks for, as sent.
    public let target: String
    /// The path without its query.
    public let path: String
    /// The text after the first question mark.
    public let query: String
    /// The header fields in their order, names as received.
    public let headers: [OriginHeader]
    /// The number of this request among those for its path: 1 for the first.
    public let number: Int
    /// The connection on which it came: 1 for the first that was accepted.
    public let connection: Int

    /// The value of the first header field with `name`, compared without case.
    public subscript(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }
}

/// Counts of the requests for one path.
public struct OriginStatistics: Equatable, Sendable {
    /// Requests received.
    public internal(set) var requests = 0
    /// Requests being answered now.
    public internal(set) var concurrent = 0
    /// The highest number of requests that were being answered at the same time.
    public internal(set) var maxConcurrent = 0
    /// Requests that wait for the gate now.
    public internal(set) var held = 0
    /// Responses that were sent completely.
    public internal(set) var completed = 0
    /// Responses whose client closed the connection before their end.
    public internal(set) var abandoned = 0
    /// Bytes of bodies that were written to the socket.
    public internal(set) var bytesSent = 0
    /// The longest time in milliseconds between two pieces of a body; long on a machine that has no time for the
    /// origin.
    public internal(set) var longestPauseMs = 0

    mutating func notePause(_ milliseconds: Int) {
        longestPauseMs = max(longestPauseMs, milliseconds)
    }
}
