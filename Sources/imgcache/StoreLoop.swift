import IPCTransport
import LinuxSystem
import SystemValues
import WorkerProtocol

/// Answers the broker's messages one after the other. Between them it commits, evicts, reconciles and retries.
struct StoreLoop {
    /// The longest time that background work delays a message, in milliseconds.
    private static let slice = 5
    /// The idle time after which writes are committed, the longest time that they wait for it (both in milliseconds),
    /// and the number of writes that is committed at once.
    private static let commitPause = 20
    /// The idle time, in milliseconds, after which writes are committed that jobs wait for.
    private static let keepPause = 5
    private static let commitInterval = 100
    private static let commitWrites = 1000
    /// The longest time that times of use wait under load, in milliseconds, and the number that is written at once: the
    /// more there are, the fewer pages each of them changes.
    private static let useInterval = 1000
    private static let usesAtOnce = 8192
    /// The time between two steps of the reconciliation under load, and their length, in milliseconds.
    private static let reconcileInterval = 20
    private static let reconcileSlice = 2
    /// The least time between two reports of the state, in milliseconds.
    private static let reportInterval = 250
    /// The most reports, and their bytes, that are sent together when several orders to find small entries have
    /// arrived, so that the broker is woken once for them; and how long the first of them waits before one more order
    /// is carried out.
    private static let reportsTogether = 8
    private static let bytesTogether = 1 << 16
    private static let queuedMicroseconds = 1000
    /// The most keys in one report, because the length of a frame is limited.
    private static let maximumKeys = 5000
    /// The time without an order after which memory is given back, in milliseconds.
    private static let quietTime = 2000

    private let channel: FrameChannel
    let store: Store
    private let queue: EventQueue
    private var lastCommit = Instant.now
    private var lastUses = Instant.now
    private var lastReconciliation = Instant.now
    private var (queuedReports, queuedSince) = (0, Instant.now)
    private var quiet = QuietWatch(milliseconds: quietTime)
    private var lastReport: (report: DiskReport, time: Instant)?

    init(channel: FrameChannel, store: Store) throws(SystemError) {
        self.channel = channel
        self.store = store
        queue = try EventQueue()
        try queue.add(channel.socket.raw, token: 0)
        // If that fails, so does the next attempt.
        store.willOpenFile = { _ = try? channel.flush() }
    }

    /// Serves until the broker closes the channel, or another process is to take over. Throws `FrameChannel.Failure`,
    /// `SystemError`.
    mutating func serve() throws {
        defer { store.commit() }
        let quarantined = QuarantineFile(in: store.directory).read()
        if !quarantined.isEmpty { try channel.sendMessage(StoreReport.quarantine(quarantined)) }
        while true {
            let isLast = store.exitAt.map { $0 <= .now } ?? false
            try reportState(isLast: isLast)
            if isLast { return }
            let isIdle = try queue.wait(until: nextWork).isEmpty
            store.log.writeCounts()
            if !isIdle {
                quiet.note(at: .now)
                if try channel.fill() == .end { return }
                while let (order, descriptors) = try channel.nextMessage(StoreOrder.self) {
                    if isFlushDue(before: order) { try flush() }
                    try handle(order, descriptors)
                    try commitIfDue(isIdle: false)
                    try sendEndedKeeps()
                    if store.hasWork { try flush() }
                    store.evict(until: .now.adding(milliseconds: Self.slice))
                }
                try flush()
            }
            try commitIfDue(isIdle: isIdle)
            store.retryIfDue()
            let end = Instant.now.adding(milliseconds: Self.slice)
            store.evict(until: end)
            store.clear(until: end)
            // Under load, too, a little: until its end each entry that is stored costs a look for an older file.
            if isIdle || lastReconciliation.adding(milliseconds: Self.reconcileInterval) <= .now {
                lastReconciliation = .now
                store.reconcile(until: isIdle ? end : min(end, .now.adding(milliseconds: Self.reconcileSlice)))
            }
            if quiet.hasBecomeQuiet(at: .now) { store.releaseMemory() }
            if let keys = store.takeKeys() { try channel.sendMessage(keys) }
            try sendEndedKeeps()
            for (job, removed, bytes) in store.clears.takeAnswers() {
                try send(.cleared(job: job, removed: removed, bytes: bytes))
            }
            try flush()
        }
    }

    /// When work is due; nil for none.
    private var nextWork: Instant? {
        if store.hasWork || store.hasKeysToReport { return .now }
        var next: Instant?
        func wake(at instant: Instant?) {
            if let instant, next.map({ instant < $0 }) ?? true { next = instant }
        }
        if store.pendingWrites + store.pendingUses > 0 {
            wake(at: .now.adding(milliseconds: store.hasPendingKeeps ? Self.keepPause : Self.commitPause))
        }
        if let lastReport, lastReport.report != store.report {
            wake(at: lastReport.time.adding(milliseconds: Self.reportInterval))
        }
        wake(at: store.retryAt)
        wake(at: store.exitAt)
        wake(at: store.nextEviction)
        wake(at: store.log.nextCount)
        wake(at: quiet.nextLook)
        return next
    }

    private mutating func commitIfDue(isIdle: Bool) throws {
        let (pending, uses) = (store.pendingWrites, store.pendingUses)
        if pending == 0 { lastCommit = .now }
        if uses == 0 { lastUses = .now }
        if pending == 0, uses == 0 { return }
        // Between two slices of background work the loop is not idle.
        let isPause = isIdle && !store.hasWork
        let withUses = isPause || uses >= Self.usesAtOnce || lastUses.adding(milliseconds: Self.useInterval) <= .now
        let isLate = lastCommit.adding(milliseconds: Self.commitInterval) <= .now
        // Large transactions would make the logs large.
        let isLarge = pending >= Self.commitWrites || store.isLogDue
        guard withUses || isLate || isLarge else { return }
        try flush()
        store.commit(withUses: withUses)
        lastCommit = .now
    }

    /// Reports the entries that were committed, all at once.
    private mutating func sendEndedKeeps() throws {
        let ended = store.takeEndedKeeps()
        if ended.isEmpty { return }
        let kept = ended.filter(\.isKept), lost = ended.filter { !$0.isKept }
        if !kept.isEmpty { try send(.kept(jobs: kept.map(\.job))) }
        if !lost.isEmpty { try send(.notKept(jobs: lost.map(\.job))) }
        try flush()
    }

    /// Reports the state if it has changed, after some time; the last one at once, because it says why this process
    /// exits.
    private mutating func reportState(isLast: Bool) throws {
        let report = store.report
        if let lastReport {
            let isDue = isLast || lastReport.time.adding(milliseconds: Self.reportInterval) <= .now
            guard lastReport.report != report, isDue else { return }
        }
        lastReport = (report, .now)
        try channel.sendMessage(StoreReport.state(report))
    }

    private mutating func handle(_ order: StoreOrder, _ descriptors: [FileDescriptor]) throws {
        switch order {
        case .find(let job, let keys, let form, let rasterOnly):
            switch store.find(keys: keys, form: form, rasterOnly: rasterOnly) {
            case .original(let record, let bytes):
                try send(.foundOriginal(job: job, record), bytes)
            case .raster(let original, let record, let pixels):
                try send(.foundRaster(job: job, original, record), pixels)
            case nil: try send(.missing(job: job))
            }
        case .keepOriginal(let job, let record):
            try keep(.original(record), contents(descriptors), job)
        case .keepRaster(let job, let record):
            try keep(.raster(record, digest: ""), contents(descriptors), job)
        case .query(let job, let keys): try send(.queried(job: job, store.record(keys: keys)))
        case .quarantine(let records):
            if store.obstacle == nil { QuarantineFile(in: store.directory).write(records) }
        case .update(let record): store.update(record)
        case .limit(let originals, let rasters, let seconds):
            store.replaceLimits(originals: originals, rasters: rasters, maxAge: seconds.map { $0 * 1000 })
        // Answered by the loop when it is complete.
        case .clear(let job, let seconds): store.clear(job: job, olderThanSeconds: seconds)
        case .touch(let keys): store.touch(keys: keys)
        case .forget(let job, let url, let owner):
            let keys = store.forget(url: url, owner: owner)
            try send(.forgotten(job: job, keys: Array(keys.prefix(Self.maximumKeys))))
        case .discard(let job, let digests):
            store.discard(digests: digests)
            try send(.forgotten(job: job, keys: []))
        }
    }

    private func contents(_ descriptors: [FileDescriptor]) -> EntryBody {
        channel.frameBytes.map { .bytes($0) } ?? .file(descriptors[0])
    }

    private mutating func keep(_ content: EntryTrailer.Content, _ body: EntryBody, _ job: Int) throws {
        switch store.keep(content, body: body) {
        case .kept: try send(.kept(jobs: [job]))
        case .notKept: try send(.notKept(jobs: [job]))
        case .pending: store.addPendingKeep(job)
        }
    }

    /// Whether queued reports must not wait for the next order to be carried out.
    private func isFlushDue(before order: StoreOrder) -> Bool {
        guard channel.hasOutgoing else { return false }
        guard case .find = order else { return true }
        return queuedReports >= Self.reportsTogether || channel.queuedBytes >= Self.bytesTogether
            || channel.queuedDescriptors > 0 || Instant.now.microseconds(since: queuedSince) > Self.queuedMicroseconds
    }

    private mutating func flush() throws {
        try channel.flushMessages()
        queuedReports = 0
    }

    /// Queues a report; in place of one that no frame can hold, that the entry is missing.
    private mutating func send(_ report: StoreReport, _ body: EntryBody? = nil) throws {
        do {
            switch body {
            case .file(let file): try channel.enqueue(report, descriptors: [file])
            case .bytes(let bytes): try channel.enqueue(report, bytes: bytes)
            case nil: try channel.enqueue(report)
            }
        } catch {
            guard let replacement = report.replacement else { throw FrameChannel.Failure.tooLong(error) }
            try channel.enqueue(replacement)
        }
        if queuedReports == 0 { queuedSince = .now }
        queuedReports += 1
    }
}
