internal import CMemcached
internal import Glibc
import IPCProtocol
internal import LinuxSystem
import SystemValues
import WorkerProtocol

/// A server of the shared tier: its connection, its health and its figures. Each command is bounded in time, and none
/// is sent while the server is left out.
@safe final class TierConnection {
    enum Outcome {
        case done
        case missing
        /// The server works, and has refused the command.
        case refused
        /// The server has failed, or is left out.
        case failed
    }

    @unsafe struct Item {
        let bytes: UnsafeRawBufferPointer
        let version: UInt64
    }

    /// The time in milliseconds that a connection may take, and each further wait.
    static let connectMs: UInt64 = 50
    static let waitMs: UInt64 = 250

    /// The library's state of the server; the connection is made with the first command and after each failure.
    private let raw: UnsafeMutablePointer<memcached_st>?
    /// The item that was received last, in memory of its own: the library frees an item that it has allocated at the
    /// end of a list.
    private let result = UnsafeMutablePointer<memcached_result_st>.allocate(capacity: 1)
    private(set) var health = ServerHealth()
    /// The figures, whose `state` is set by `figures`.
    var counts = StatsReport.SharedServer()

    /// A server at a numeric address; without one it is left out for good. A connection ends after `connectMs`, and
    /// each further wait after `waitMs`.
    init(_ name: ServerName, address: String?, connectMs: UInt64 = connectMs, waitMs: UInt64 = waitMs) {
        counts.name = name.text
        unsafe result.initialize(to: memcached_result_st())
        unsafe raw = address.flatMap { unsafe Self.server($0, name.port, connectMs: connectMs, waitMs: waitMs) }
        if let raw = unsafe raw { unsafe memcached_result_create(raw, result) }
    }

    deinit {
        if let raw = unsafe raw {
            unsafe memcached_result_free(result)
            unsafe memcached_free(raw)
        }
        unsafe result.deallocate()
    }

    /// The library's state of a server; nil when memory is short.
    private static func server(
        _ address: String, _ port: UInt16, connectMs: UInt64, waitMs: UInt64
    ) -> UnsafeMutablePointer<memcached_st>? {
        guard let server = unsafe memcached_create(nil) else { return nil }
        // A server states the length of an item before it sends it, and the library allocates what it states.
        let hasLimit =
            unsafe memcached_set_memory_allocators(
                server,
                { _, size, _ in unsafe size > TierConnection.largest ? nil : malloc(size) },
                { _, memory, _ in unsafe free(memory) },
                { _, memory, size, _ in unsafe size > TierConnection.largest ? nil : realloc(memory, size) },
                { _, count, size, _ in
                    unsafe size > 0 && count > TierConnection.largest / size ? nil : calloc(count, size)
                },
                nil) == MEMCACHED_SUCCESS
        let options = [
            (MEMCACHED_BEHAVIOR_NO_BLOCK, 1), (MEMCACHED_BEHAVIOR_TCP_NODELAY, 1),
            (MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, connectMs), (MEMCACHED_BEHAVIOR_POLL_TIMEOUT, waitMs),
            // `Tier` decides when a server is tried again.
            (MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1), (MEMCACHED_BEHAVIOR_RETRY_TIMEOUT, 1),
        ]
        for (option, value) in options { unsafe memcached_behavior_set(server, option, value) }
        if hasLimit, unsafe memcached_server_add(server, address, port) == MEMCACHED_SUCCESS { return unsafe server }
        unsafe memcached_free(server)
        return nil
    }

    var hasAddress: Bool { unsafe raw != nil }

    /// Whether commands are sent.
    var isUsable: Bool { unsafe raw != nil && !health.isEjected(at: .now) }

    var figures: StatsReport.SharedServer {
        var figures = counts
        figures.state = isUsable ? "up" : "ejected"
        return figures
    }

    /// The most bytes of one allocation: a string grows in blocks, and a line of the protocol precedes the value.
    private static let largest = RecordEnvelope.longest + (64 << 10)

    /// Asks for all items with one message, and passes each one that the server sends to `body`, with the place of its
    /// name. A server may send an item twice. Its bytes are valid until `body` returns.
    func get(_ names: ItemNames, _ body: (_ place: Int, Item) -> Void) -> Outcome {
        if names.isEmpty { return .done }
        guard isUsable, let raw = unsafe raw else { return .failed }
        let asked = unsafe names.withTexts { unsafe memcached_mget(raw, $0, $1, names.count) }
        // What was sent is not answered yet.
        guard asked == MEMCACHED_SUCCESS || asked == MEMCACHED_BUFFERED else { return outcome(asked) }
        var next = 0
        // One for each name, and the end.
        for _ in 0...names.count {
            var status = MEMCACHED_FAILURE
            guard unsafe memcached_fetch_result(raw, result, &status) != nil else {
                let outcome = outcome(status)
                // The library reports the end of a list so, after items or without any.
                return outcome == .missing ? .done : outcome
            }
            let name = unsafe UnsafeRawBufferPointer(
                start: memcached_result_key_value(result), count: memcached_result_key_length(result))
            guard let place = unsafe names.place(of: name, after: next) else { continue }
            next = place + 1
            let bytes = unsafe UnsafeRawBufferPointer(
                start: memcached_result_value(result), count: memcached_result_length(result))
            unsafe body(place, Item(bytes: bytes, version: memcached_result_cas(result)))
        }
        // The server sends more than it was asked for.
        return outcome(MEMCACHED_FAILURE)
    }

    /// Writes an item that expires after some seconds, at most 30 days.
    func set(_ key: String, _ value: UnsafeRawBufferPointer, seconds: Int) -> Outcome {
        unsafe command { unsafe memcached_set($0, key, key.utf8.count, value.baseAddress, value.count, seconds, 0) }
    }

    /// Writes an item unless it exists. The next `get` shows what exists.
    func claim(_ key: String, _ value: String, seconds: Int) -> Outcome {
        unsafe command(isAnswered: false) {
            unsafe memcached_add($0, key, key.utf8.count, value, value.utf8.count, seconds, 0)
        }
    }

    /// Writes an item if it still has a version; with 0 seconds it expires at once. It is not known whether it had.
    func replace(_ key: String, _ value: String, seconds: Int, version: UInt64) -> Outcome {
        let expiry = seconds == 0 ? Self.longAgo : seconds
        return unsafe command(isAnswered: false) {
            unsafe memcached_cas($0, key, key.utf8.count, value, value.utf8.count, expiry, 0, version)
        }
    }

    /// An expiry in the past: times above 30 days are seconds since 1970.
    private static let longAgo = 30 * 86_400 + 1

    func remove(_ key: String) -> Outcome {
        unsafe command { unsafe memcached_delete($0, key, key.utf8.count, 0) }
    }

    /// Sends a command, unless the server is left out. One that is not answered is not waited for.
    private func command(
        isAnswered: Bool = true, _ send: (UnsafeMutablePointer<memcached_st>) -> memcached_return_t
    ) -> Outcome {
        guard isUsable, let raw = unsafe raw else { return .failed }
        if !isAnswered { unsafe memcached_behavior_set(raw, MEMCACHED_BEHAVIOR_NOREPLY, 1) }
        let status = unsafe send(raw)
        if !isAnswered { unsafe memcached_behavior_set(raw, MEMCACHED_BEHAVIOR_NOREPLY, 0) }
        return outcome(status)
    }

    /// Names an outcome. After a failure, which it counts, the server is left out, and the connection is closed,
    /// because unread bytes may be left in it.
    private func outcome(_ status: memcached_return_t) -> Outcome {
        let outcome: Outcome
        switch status {
        case MEMCACHED_SUCCESS, MEMCACHED_STORED, MEMCACHED_DELETED, MEMCACHED_BUFFERED: outcome = .done
        case MEMCACHED_NOTFOUND, MEMCACHED_END: outcome = .missing
        case MEMCACHED_NOTSTORED, MEMCACHED_DATA_EXISTS: outcome = .refused
        case MEMCACHED_E2BIG, MEMCACHED_SERVER_ERROR, MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE,
            MEMCACHED_MEMORY_ALLOCATION_FAILURE:
            // It works, but what it has sent or still sends is of no use.
            close()
            outcome = .refused
        default:
            close()
            counts.failures += 1
            if status == MEMCACHED_TIMEOUT { health.late(at: .now) } else { health.failed(at: .now) }
            return .failed
        }
        health.answered()
        return outcome
    }

    private func close() { if let raw = unsafe raw { unsafe memcached_quit(raw) } }
}

/// Whether a server is asked. One that has failed is left out for a while, so that its keys cost no time.
struct ServerHealth {
    static let ejectionMs = 30_000

    private var ejectedUntil: Instant?
    private var isLate = false

    func isEjected(at now: Instant) -> Bool { ejectedUntil.map { now < $0 } ?? false }

    mutating func answered() { isLate = false }

    /// Notes that there is no connection, or an answer that makes no sense.
    mutating func failed(at now: Instant) {
        ejectedUntil = now.adding(milliseconds: Self.ejectionMs)
        isLate = false
    }

    /// Notes that the server has not answered in time. It is left out the second time in a row, because once a machine
    /// with too much to do is late, too.
    mutating func late(at now: Instant) { if isLate { failed(at: now) } else { isLate = true } }
}
