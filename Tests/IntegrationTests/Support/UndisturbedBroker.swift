/// A broker without hostile clients. A test loads an image from it whenever it loads one from the broker under test,
/// because other load on the machine slows down both.
final class UndisturbedBroker {
    private let setting: Setting
    private let client: RawClient
    private(set) var slowest = 0
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

    /// The milliseconds of the slowest of `count` actions, with a load of this broker after each.
    func slowest(of count: Int, pausing microseconds: UInt32 = 0, _ action: () throws -> Void) throws -> Int {
        try (0..<count).reduce(0) { slowest, _ in
            let took = try milliseconds(action)
            try load()
            usleep(microseconds)
            return max(slowest, took)
        }
    }

    func loadFromOrigin() throws { try load(#""cache":"reload","delivery":"none""#) }
}
