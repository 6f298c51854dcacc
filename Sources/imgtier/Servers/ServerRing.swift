internal import CTier
import WorkerProtocol

/// The ring that determines the server of each key (ketama). It has the servers' names, so that all brokers with the same list
/// find the same places, also where the names have other addresses.
@safe final class ServerRing {
    private let raw: OpaquePointer

    /// The ring of these servers; nil when memory is short.
    init?(_ servers: [ServerName]) {
        guard let ring = unsafe ctier_ring_create() else { return nil }
        unsafe raw = ring
        for server in servers where unsafe ctier_ring_add(ring, server.host, server.port) != 0 { return nil }
    }

    deinit { unsafe ctier_ring_free(raw) }

    func server(of key: String) -> Int { unsafe Int(ctier_ring_server(raw, key, key.utf8.count)) }

    /// The parts of all keys that the servers have, in thousandths, as found with sample keys.
    func shares(count: Int) -> [Int] {
        var counts = [Int](repeating: 0, count: count)
        let samples = 10_000
        for sample in 0..<samples { counts[server(of: "sample \(sample)")] += 1 }
        return counts.map { $0 * 1000 / samples }
    }
}
