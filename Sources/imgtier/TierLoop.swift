import DiskRecords
import IPCProtocol
import IPCTransport
import LinuxSystem
import SharedCache
import SystemValues
import WorkerProtocol

/// Takes the broker's orders: lookups that have arrived together are answered together and first, then other orders for
/// a few milliseconds, and last the leases that are not needed any more are ended.
struct TierLoop {
    /// The least time between two reports of the figures, in milliseconds.
    private static let reportInterval = 1000
    /// The time after which a process that does not know a server's address makes room for another, in milliseconds.
    private static let retryInterval = 30_000
    /// The time for which orders are carried out before lookups are taken again, in microseconds.
    private static let turn = 5_000
    /// The number of bytes from which on answers are sent while others are still to come, and the memory that is kept
    /// for them.
    private static let bytesTogether = 64 << 10
    private static let keptMemory = 256 << 10
    /// The most leases that are ended together.
    private static let leasesAtOnce = 64

    private let channel: FrameChannel
    private let tier: Tier
    let ports: [UInt16]
    private let queue: EventQueue
    private var waiting: ArraySlice<(order: TierOrder, body: Tier.Body)> = []
    private var reported: [StatsReport.SharedServer] = []
    private var reportedAt: Instant?
    /// Whether something was done since the figures were looked at.
    private var mayHaveNews = true
    /// When the process makes room for another that looks for addresses anew; nil when all are known.
    private let exitAt: Instant?

    init(channel: FrameChannel, tier: Tier, ports: [UInt16]) throws(SystemError) {
        (self.channel, self.tier, self.ports) = (channel, tier, ports)
        channel.keptCapacity = Self.keptMemory
        exitAt = tier.hasUnknownAddress ? .now.adding(milliseconds: Self.retryInterval) : nil
        queue = try EventQueue()
        try queue.add(channel.socket.raw, token: 0)
    }

    /// Serves until the broker closes the channel, or another process is to look for addresses. Throws
    /// `FrameChannel.Failure`, `SystemError`.
    mutating func serve() throws {
        while exitAt.map({ .now < $0 || !waiting.isEmpty }) ?? true {
            try report()
            let hasOrders = try !queue.wait(until: nextWork).isEmpty
            if hasOrders || !waiting.isEmpty { mayHaveNews = true }
            if hasOrders {
                if try channel.fill() == .end { return }
                try takeOrders()
            }
            try carryOutOrders()
            if waiting.isEmpty || tier.unneededLeases >= Self.leasesAtOnce { tier.releaseUnneeded() }
        }
    }

    private mutating func carryOutOrders() throws {
        if waiting.isEmpty { return }
        let begunAt = Instant.now
        while let (order, body) = waiting.first {
            // The array keeps its first elements until it grows, but not their descriptors.
            waiting[waiting.startIndex].body = .bytes([])
            waiting.removeFirst()
            try carryOut(order, body)
            if Instant.now.microseconds(since: begunAt) > Self.turn { break }
        }
        if waiting.isEmpty { waiting = [] }
        try channel.flushMessages()
    }

    /// When work is due; nil for none.
    private var nextWork: Instant? {
        if !waiting.isEmpty { return .now }
        guard mayHaveNews, let due = reportedAt?.adding(milliseconds: Self.reportInterval) else { return exitAt }
        return exitAt.map { min($0, due) } ?? due
    }

    /// Takes the orders that have arrived, and answers the lookups among them.
    private mutating func takeOrders() throws {
        var lookups: [Tier.Lookup] = []
        while let (order, descriptors) = try channel.nextMessage(TierOrder.self) {
            if case .find(let job, let key, let token) = order {
                lookups.append(Tier.Lookup(job: job, key: key, token: token))
            } else {
                let file = descriptors.first.map { Tier.Body.file($0) }
                waiting.append((order, file ?? .bytes(channel.frameBytes ?? [])))
            }
        }
        if lookups.isEmpty { return }
        var failure: (any Error)?
        tier.find(lookups) { job, answer in
            do { try enqueue(answer, to: job) } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
        try channel.flushMessages()
    }

    private func enqueue(_ answer: Tier.Answer, to job: Int) throws {
        switch answer {
        case .foundSmall(let metadata, let content):
            let found = TierReport.foundSmall(job: job, metadata: metadata)
            try channel.enqueue { (frames) throws(Frame.TooLong) in
                try unsafe found.append(to: &frames, with: content.bytes)
            }
        case .found(let record, let body):
            try channel.enqueue(TierReport.found(job: job, record), descriptors: [body.descriptor])
        case .noted(let record): try channel.enqueue(TierReport.noted(job: job, record))
        case .leased: try channel.enqueue(TierReport.leased(job: job))
        case .busy: try channel.enqueue(TierReport.busy(job: job))
        case .unavailable: try channel.enqueue(TierReport.unavailable(job: job))
        }
        // The broker goes on with them, and their memory and descriptors are free for the next ones.
        if channel.queuedBytes >= Self.bytesTogether || channel.queuedDescriptors > 0 { try channel.flushMessages() }
    }

    private func carryOut(_ order: TierOrder, _ body: Tier.Body) throws {
        switch order {
        case .find: break
        case .renew(let key, let token): tier.renew(key: key, token: token)
        case .release(let key, let token): tier.release(key: key, token: token)
        case .keep(let job, let record, let token), .note(let job, let record, let token):
            let isKept = tier.write(record, body: body)
            if let token { tier.release(key: record.key, token: token) }
            try channel.enqueue(TierReport.kept(job: job, isKept: isKept))
        case .remove(let keys): tier.remove(keys: keys)
        case .reject(let key): tier.reject(key: key)
        }
    }

    /// Reports the figures if they have changed, after some time.
    private mutating func report() throws {
        if !mayHaveNews { return }
        if let reportedAt, reportedAt.adding(milliseconds: Self.reportInterval) > .now { return }
        let figures = tier.figures
        mayHaveNews = false
        if figures == reported { return }
        (reported, reportedAt) = (figures, .now)
        try channel.sendMessage(TierReport.servers(figures))
    }
}
