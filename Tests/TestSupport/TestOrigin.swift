package import LocalOrigin

/// A `LocalOrigin` that stops when its test ends.
@dynamicMemberLookup
package final class TestOrigin: Sendable {
    private let origin: LocalOrigin

    package init(
        address: String = "127.0.0.1",
        _ handler: @escaping @Sendable (LocalOrigin.Request) -> LocalOrigin.Response
    ) throws { origin = try LocalOrigin(address: address, handler) }

    deinit { origin.stop() }

    package subscript<Value>(dynamicMember path: KeyPath<LocalOrigin, Value>) -> Value { origin[keyPath: path] }

    package var requests: [LocalOrigin.Request] { origin.requests }

    package func url(_ path: String, host: String? = nil) -> String { origin.url(path, host: host) }
    package func requests(_ path: String) -> [LocalOrigin.Request] { origin.requests(path) }
    package func statistics(_ path: String) -> LocalOrigin.Statistics { origin.statistics(path) }
    package func gate(_ path: String) -> LocalOrigin.Gate { origin.gate(path) }
    package func wait(
        for path: String, seconds: Double = patience, until isTrue: (LocalOrigin.Statistics) -> Bool
    ) -> Bool {
        origin.wait(for: path, seconds: seconds, until: isTrue)
    }

    package func stop() { origin.stop() }
}
