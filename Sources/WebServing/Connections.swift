internal import CWebServer
import HTTPValues
import LinuxSystem
import SystemValues

/// The open connections of the server, which its threads share, and a thread that ends those whose time is over.
final class Connections: Sendable {
    private let table: Locked<ConnectionTable>
    /// Wakes the thread for an earlier deadline.
    private let waker: Waker
    private let refusal: @Sendable (WebRefusal) -> [UInt8]?

    /// Starts the thread.
    ///
    /// - Throws: `SystemError` of `eventfd` or `pthread_create`.
    init(
        _ limits: ConnectionTable.Limits, refusal: @escaping @Sendable (WebRefusal) -> [UInt8]?
    ) throws(SystemError) {
        table = Locked(ConnectionTable(limits))
        self.refusal = refusal
        waker = try Waker()
        try DetachedThread.start(name: "connections") { [self] in
            // A loop without a condition takes the optimizer of Swift 6.3 minutes.
            repeat {
                waker.clear()
                table.withLock { table in
                    for ended in table.takeExpired(at: .now) { end(ended, .tooSlow) }
                }
            } while waker.wait(milliseconds: millisecondsToDeadline)
        }
    }

    /// Takes a connection that was accepted, and may end it or another. The address is nil for a Unix socket.
    func open(_ descriptor: Int32, from address: IPAddress?) {
        change { table in
            // Under the lock: a descriptor names its connection until `close` has removed it.
            if let ended = table.open(descriptor, from: address, at: .now) { end(ended, .busy) }
        }
    }

    func beginBody(_ descriptor: Int32) {
        change { $0.beginBody(descriptor, at: .now) }
    }

    /// Ends a connection, with an answer if none has begun.
    func refuse(_ descriptor: Int32, _ reason: WebRefusal) {
        table.withLock { table in
            if table.refuse(descriptor) { end(ConnectionTable.Ended(id: descriptor, phase: .body), reason) }
        }
    }

    /// Makes the answer of a connection by `answer`; nil when it is not to be answered at present.
    func answer(_ descriptor: Int32, isHealth: Bool, _ answer: () -> WebAnswer) -> WebAnswer? {
        guard table.withLock({ $0.beginAnswer(descriptor, isHealth: isHealth) }) else { return nil }
        defer { change { $0.endAnswer(descriptor, at: .now) } }
        return answer()
    }

    /// Forgets a connection that is going to be closed.
    func close(_ descriptor: Int32) {
        table.withLock { $0.close(descriptor) }
    }

    private func change(_ body: (inout ConnectionTable) -> Void) {
        let isEarlier = table.withLock { table in
            let before = table.nextDeadline
            body(&table)
            guard let deadline = table.nextDeadline else { return false }
            return before.map { deadline < $0 } ?? true
        }
        if isEarlier { waker.wake() }
    }

    private func end(_ ended: ConnectionTable.Ended, _ reason: WebRefusal) {
        if ended.phase != .sending, let bytes = refusal(reason) {
            unsafe bytes.withUnsafeBytes { unsafe cwebserver_refuse(ended.id, $0.baseAddress, $0.count) }
        } else {
            cwebserver_end(ended.id)
        }
    }

    /// The milliseconds to the next deadline, rounded up; nil without one.
    private var millisecondsToDeadline: Int? {
        let deadline = table.withLock { $0.nextDeadline }
        return deadline.map { max(0, $0.microseconds(since: .now) / 1000 + 1) }
    }
}
