import LocalOrigin
import TestSupport

/// A broker without hostile clients. A test loads an image from it whenever it loads one from the broker under test,
/// because other load on the machine slows down both.
final class UndisturbedBroker {
    private let setting: Setting
    private let client: RawClient
    /// The milliseconds that the slowest load has taken.
    private(set) var slowest = 0
    /// The milliseconds that all loads have taken together.
    private(set) var total = 0

    init() throws {
        setting = try Setting(workers: 1) { request in png(tile(request.number)) }
        client = try setting.client()
        try load(#""delivery":"none""#)
    }

    /// Loads an image, from memory unless `members` say otherwise.
    func load(_ members: String = #""delivery":"none""#) throws {
        let took = try milliseconds { _ = try client.load(setting.url("/a"), members) }
        slowest = max(slowest, took)
        total += took
    }

    /// Loads an image from the origin.
    func loadFromOrigin() throws {
        try load(#""cache":"reload","delivery":"none""#)
    }
}
