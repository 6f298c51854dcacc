import LocalOrigin

/// A `LocalOrigin` that stops when its test ends.
@dynamicMemberLookup
final class TestOrigin: Sendable {
    private let origin: LocalOrigin

    init(
        address: String = "127.0.0.1",
        _ handler: @escaping @Sendable (LocalOrigin.Request) -> LocalOrigin.Response
    ) throws { origin = try LocalOrigin(address: address, handler) }

    deinit { origin.stop() }

    subscript<Value>(dynamicMember path: KeyPath<LocalOrigin, Value>) -> Value { origin[keyPath: path] }

    var requests: [LocalOrigin.Request] { origin.requests }

    func url(_ path: String, host: String? = nil) -> String { origin.url(path, host: host) }
    func requests(_ path: String) -> [LocalOrigin.Request] { origin.requests(path) }
    func statistics(_ path: String) -> LocalOrigin.Statistics { origin.statistics(path) }
    func gate(_ path: String) -> LocalOrigin.Gate { origin.gate(path) }
    func wait(for path: String, seconds: Double = 10, until isTrue: (LocalOrigin.Statistics) -> Bool) -> Bool {
        origin.wait(for: path, seconds: seconds, until: isTrue)
    }
}

/// The body of most tests.
let picture = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 7) }

/// Loads a URL with this response.
func fetch(_ response: LocalOrigin.Response, maxBytes: Int = 1 << 24) throws -> FetchWorker.Run {
    let origin = try TestOrigin { _ in response }
    return try FetchWorker().run(origin.url("/a"), maxBytes: maxBytes)
}

extension LocalOrigin.Response {
    /// The response with more header fields.
    func adding(_ fields: KeyValuePairs<String, String>) -> Self {
        with { $0.headers += fields.map { LocalOrigin.Header($0.key, $0.value) } }
    }
}
