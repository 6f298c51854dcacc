internal import CTier
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
    static let connectMs: Int32 = 50
    static let waitMs: Int32 = 250

    private let raw: OpaquePointer?
    private(set) var health = ServerHealth()
    /// The figures, whose `state` is set by `figures`.
    var counts = StatsReport.SharedServer()

    /// A server at a numeric address; without one it is left out for good. A connection ends after `connectMs`, and
    /// each further wait after `waitMs`.
    init(_ name: ServerName, address: String?, connectMs: Int32 = connectMs, waitMs: Int32 = waitMs) {
        counts.name = name.text
        unsafe raw = address.flatMap {
            unsafe ctier_connection_create($0, name.port, connectMs, waitMs, RecordEnvelope.longest)
        }
    }

    deinit { if let raw = unsafe raw { unsafe ctier_connection_free(raw) } }

    var hasAddress: Bool { unsafe raw != nil }

    /// Whether commands are sent.
    var isUsable: Bool { unsafe raw != nil && !health.isEjected(at: .now) }

    var figures: StatsReport.SharedServer {
        var figures = counts
        figures.state = isUsable ? "up" : "ejected"
        return figures
    }

    /// Asks for all items with one message, and passes each one that the server sends to `body`, with the place of its
    /// name. A server may send an item twice. Its bytes are valid until `body` returns.
    func get(_ names: ItemNames, _ body: (_ place: Int, Item) -> Void) -> Outcome {
        if names.isEmpty { return .done }
        guard let raw = unsafe usable else { return .failed }
        let status = unsafe names.withTexts { texts, lengths in
            unsafe ctier_ask(raw, texts, lengths.baseAddress, lengths.count)
        }
        guard status == CTIER_DONE else { return outcome(status) }
        var next = 0
        // One for each name, and the end.
        for _ in 0...names.count {
            var item = unsafe ctier_item()
            let status = unsafe ctier_next(raw, &item)
            guard status == CTIER_DONE else {
                let outcome = outcome(status)
                return outcome == .missing ? .done : outcome
            }
            let name = unsafe UnsafeRawBufferPointer(start: item.key, count: item.key_length)
            guard let place = unsafe names.place(of: name, after: next) else { continue }
            next = place + 1
            unsafe body(
                place, Item(bytes: UnsafeRawBufferPointer(start: item.value, count: item.length), version: item.version)
            )
        }
        // The server sends more than it was asked for.
        unsafe ctier_close(raw)
        return outcome(CTIER_FAILED)
    }

    /// Writes an item that expires after some seconds.
    func set(_ key: String, _ value: UnsafeRawBufferPointer, seconds: Int) -> Outcome {
        guard let raw = unsafe usable else { return .failed }
        return outcome(
            unsafe ctier_set(raw, key, key.utf8.count, value.baseAddress, value.count, UInt32(clamping: seconds)))
    }

    /// Writes an item unless it exists. The next `get` shows what exists.
    func claim(_ key: String, _ value: String, seconds: Int) -> Outcome {
        guard let raw = unsafe usable else { return .failed }
        return outcome(unsafe ctier_claim(raw, key, key.utf8.count, value, value.utf8.count, UInt32(clamping: seconds)))
    }

    /// Writes an item if it still has a version; with 0 seconds it expires at once. It is not known whether it had.
    func replace(_ key: String, _ value: String, seconds: Int, version: UInt64) -> Outcome {
        guard let raw = unsafe usable else { return .failed }
        return outcome(
            unsafe ctier_replace(
                raw, key, key.utf8.count, value, value.utf8.count, UInt32(clamping: seconds), version))
    }

    func remove(_ key: String) -> Outcome {
        guard let raw = unsafe usable else { return .failed }
        return outcome(unsafe ctier_delete(raw, key, key.utf8.count))
    }

    private var usable: OpaquePointer? { isUsable ? unsafe raw : nil }

    /// Counts a failure, and leaves the server out for it.
    private func outcome(_ status: ctier_status) -> Outcome {
        switch status {
        case CTIER_DONE, CTIER_MISSING, CTIER_REFUSED:
            health.answered()
            return status == CTIER_DONE ? .done : status == CTIER_MISSING ? .missing : .refused
        default:
            counts.failures += 1
            if status == CTIER_LATE { health.late(at: .now) } else { health.failed(at: .now) }
            return .failed
        }
    }
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
