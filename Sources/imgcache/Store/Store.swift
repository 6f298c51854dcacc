import DiskRecords
import LinuxSystem
import SystemValues
import WorkerProtocol

/// The disk tier: a directory of self-describing files with an index of them, and a database of small entries.
///
/// Look-ups use the files and the database of small entries. The index determines the order of eviction, and may be
/// lost at any time.
final class Store {
    private(set) var options: StoreOptions
    let directory: CacheDirectory
    let log: Log
    /// Called before a file is opened and read, which may take long.
    var willOpenFile: () -> Void = {}
    private let opened: FileDescriptor?
    private(set) var lock: FileDescriptor?
    private(set) var index: CacheIndex?
    /// The index's file; nil when the index is in memory only.
    private var indexFile: FileSystem.Status?
    /// The small entries; nil when they cannot be written, or are switched off.
    private(set) var small: CacheIndex?
    private var smallFile: FileSystem.Status?
    /// The directories that entries are found in, in the order of search: the own one first.
    let sources: [Source]
    /// The jobs to store entries that are not committed yet, and those that have ended.
    private var keeps: (pending: [Int], ended: [(job: Int, isKept: Bool)]) = ([], [])
    /// The time of day less that since the machine's start, as of the last check.
    private var clockOffset = WallClock.milliseconds - WallClock.millisecondsSinceBoot
    private var lastRebuild, lastSmallLoss: Instant?
    /// The number of errors of both databases: after one, lists may lack entries that can still be found.
    private(set) var databaseErrors = 0
    /// Whether the size on disk is to be compared with the limits.
    var mayOverrun = false
    /// The bytes of free pages among the small entries.
    var freeBytes = 0
    private(set) var obstacle: Obstacle?
    /// The size of the entry that last failed for lack of space: nothing is stored until this much room exists.
    var neededRoom = 0
    /// The time of the next attempt to remove the obstacle.
    private(set) var retryAt: Instant?
    /// The directories that this process can reach; nil before the sandbox.
    private var confinement: Confinement?
    /// The time at which this process exits, so that another takes over that can reach the present directories.
    private(set) var exitAt: Instant?

    // The state of eviction, reconciliation, forgetting and clearing.
    var shrinking: Set<EntryKind> = []
    var nextAgeCheck = Instant.now
    var reconciliation: Reconciliation?
    var forgotten = ForgottenURLs()
    var clears = ClearOrders()
    var extras: ExtraDirectories
    var keyReport = KeyReport()

    /// - Parameter opened: the directory, if `options.directory` leads through a descriptor of it.
    init(_ options: StoreOptions, log: Log, holding opened: FileDescriptor? = nil) {
        (self.options, self.opened, self.log) = (options, opened, log)
        directory = CacheDirectory(path: options.directory)
        extras = ExtraDirectories(options.extraDirectories.filter { $0 != options.directory })
        sources = [Source(directory, isOwn: true)] + extras.directories.map { Source($0, isOwn: false) }
    }

    var report: DiskReport {
        let totals = EntryKind.allCases.map(total)
        return DiskReport(
            state: obstacle?.state ?? .on, reason: obstacle?.reason, entries: totals.reduce(0) { $0 + $1.entries },
            bytes: totals.reduce(0) { $0 + $1.bytes },
            // Unknown until all files were seen.
            mayHaveOwned: index?.mayHaveOwned == true || small?.mayHaveOwned == true || reconciliation != nil)
    }

    /// Replaces the limits. Entries beyond them are evicted from now on. `maxAge` is the time, in milliseconds, for
    /// which an entry is kept after its last use; nil for no limit.
    func replaceLimits(originals: Int, rasters: Int, maxAge: Int?) {
        options.diskLimit = originals
        options.rasterLimit = rasters
        options.maxAge = maxAge
        nextAgeCheck = .now
        mayOverrun = true
        if index != nil { for kind in EntryKind.allCases { noteSize(of: kind) } }
    }

    // MARK: Opening

    private static let smallestRoom = 1 << 16

    /// Makes and locks the directory. This takes rights that the sandbox denies. Files, which others may have written,
    /// are left to `open`, which must follow unless there is an obstacle now.
    func prepare() {
        let taken = directory.take(holding: nil)
        lock = taken.lock
        // A failed write is found again by `open`.
        if taken.obstacle?.isOutOfReach == true { setObstacle(taken.obstacle) }
    }

    /// Opens the directory, or checks whether the obstacle is gone.
    func open() {
        if confinement?.holds(options.directory) == false {
            dropIndex()
            lock = nil
            setObstacle(Obstacle(.off, "\(directory.path) was removed or replaced"))
            return exitSoon()
        }
        if index == nil, directory.isForeign {
            lock = nil
            let reason = "\(directory.path) holds the database of another program: name another directory for the cache"
            return setObstacle(Obstacle(.off, reason))
        }
        let opened = directory.open(holding: lock, room: max(neededRoom, Self.smallestRoom))
        lock = opened.lock
        var found = opened.obstacle
        switch found?.state {
        case .locked, .off: dropIndex()
        case .readOnly: if index == nil { openIndexInMemory() }
        case .full:
            if index == nil { _ = openIndex() }
            if small == nil { _ = openSmall() }
        case .on, nil:
            if !hasIndexFile { found = openIndex() }
            if found == nil, !hasSmallFile { found = openSmall() }
        }
        if found?.state == .off { dropIndex() }
        setObstacle(found)
        if found == nil { forgetAgain() }
        if found == nil || found?.state == .full { clears.isStalled = false }
    }

    func retryIfDue() {
        guard let retryAt, retryAt <= .now else { return }
        // A missing directory cannot be made from within the sandbox.
        if confinement != nil, obstacle?.state == .off {
            setObstacle(obstacle)
            exitSoon()
        } else {
            open()
        }
    }

    // MARK: The sandbox

    /// Records which directories can be reached from now on.
    func confine() { confinement = Confinement([options.directory] + options.extraDirectories) }

    /// Reacts to a file that could not be opened: its directory may be newer than the sandbox.
    func noteRefusal(_ error: SystemError) {
        guard let confinement, error.isLackOfRights else { return }
        let all = [options.directory] + options.extraDirectories
        if !all.allSatisfy(confinement.holds) { exitSoon() }
    }

    /// Schedules the exit of this process, not before its first second is over, so that a repeated cause does not keep
    /// starting processes.
    private func exitSoon() {
        guard exitAt == nil, let confinement else { return }
        log.info(.disk, "a directory was replaced: another process takes over")
        exitAt = max(.now, confinement.since.adding(milliseconds: min(options.retryInterval, 1000)))
    }

    func setObstacle(_ new: Obstacle?) {
        // Another process exits without notice, so its lock is checked more often.
        let interval = new?.state == .locked ? min(options.retryInterval, 3000) : options.retryInterval
        retryAt = new.map { _ in Instant.now.adding(milliseconds: interval) }
        guard new != obstacle else { return }
        if let new {
            // The broker logs it too, once.
            log.info(.disk, "the disk tier is \(new.state.rawValue): \(new.reason)")
        } else {
            log.info(.disk, "the disk tier is on again")
        }
        obstacle = new
    }

    /// Whether the index is still that of the directory.
    var hasIndexFile: Bool {
        guard index != nil, let indexFile, let there = try? FileSystem.status(of: directory.index) else { return false }
        return there.isSameFile(as: indexFile)
    }

    /// Whether the small entries are still those of the directory.
    private var hasSmallFile: Bool {
        guard small != nil else { return !usesSmall }
        guard let smallFile, let there = try? FileSystem.status(of: directory.small) else { return false }
        return there.isSameFile(as: smallFile)
    }

    /// Whether there are small entries, or may be.
    private var usesSmall: Bool {
        options.smallEntry > 0 || ((try? FileSystem.status(of: directory.small)) ?? nil) != nil
    }

    /// Whether the directory that has the path is the one that this process has locked and opened.
    var isPresent: Bool { lock.map(directory.isLocked) == true && hasIndexFile && hasSmallFile }

    private func dropIndex() {
        dropIndexOnly()
        dropSmall()
    }

    private func dropSmall() {
        endKeeps(areKept: false)
        (small, smallFile, freeBytes) = (nil, nil, 0)
        sources[0].still.close()
    }

    private func dropIndexOnly() {
        index = nil
        indexFile = nil
        reconciliation = nil
        shrinking = []
        withdrawKeyReport()
    }

    /// Opens the directory's index. If it cannot be used, the present index stays, or one in memory takes its place.
    private func openIndex() -> Obstacle? {
        let obstacle = open(database: directory.index, "the index") { () throws(SQLiteError) in
            try useIndex(at: directory.index)
        }
        if obstacle != nil, index == nil { openIndexInMemory() }
        return obstacle
    }

    /// Opens a database by `use`; a damaged one is removed, and made anew.
    private func open(database path: String, _ name: String, _ use: () throws(SQLiteError) -> Void) -> Obstacle? {
        var failure: SQLiteError?
        for _ in 0...1 {
            do throws(SQLiteError) {
                try use()
                return nil
            } catch {
                // Errors other than damage recur with each attempt, and the broker logs the reason.
                let line = "\(name) of \(directory.path) cannot be used: \(error)"
                if error.isDamage { log.warning(.disk, line) } else { log.info(.disk, line) }
                failure = error
                // Without the lock, the files may belong to another process.
                guard error.isDamage, lock != nil else { break }
                CacheDirectory.remove(database: path)
            }
        }
        return failure.map { Self.obstacle($0, name) }
    }

    /// Opens the small entries. If they cannot be written, they are read as they are.
    private func openSmall() -> Obstacle? {
        guard usesSmall else { return nil }
        let path = directory.small
        return open(database: path, "the database of small entries") { () throws(SQLiteError) in
            if lock != nil { try Self.removeShared(path) }
            let opened = try CacheIndex(path: path, logBytes: options.indexLogBytes, holdsContents: true)
            if hasPlausibleClock { try opened.limitLastUse(to: now) }
            dropSmall()
            small = opened
            smallFile = try? FileSystem.status(of: path)
            mayOverrun = true
            for kind in EntryKind.allCases { noteSize(of: kind) }
        }
    }

    /// Replaces the database of small entries by an empty one; false when it cannot be removed.
    func replaceSmall() -> Bool {
        dropSmall()
        CacheDirectory.remove(database: directory.small)
        let isRemoved = (try? FileSystem.status(of: directory.small)) == .some(nil)
        if let obstacle = openSmall() { setObstacle(obstacle) }
        return isRemoved
    }

    private func openIndexInMemory() {
        do throws(SQLiteError) {
            try useIndex(at: ":memory:")
        } catch {
            log.warning(.disk, "no index can be opened: \(error)")
        }
    }

    private func useIndex(at path: String) throws(SQLiteError) {
        if path == directory.index, lock != nil { try Self.removeShared(path) }
        let opened = try CacheIndex(path: path, logBytes: options.indexLogBytes)
        if hasPlausibleClock { try opened.limitLastUse(to: now) }
        clockOffset = WallClock.milliseconds - WallClock.millisecondsSinceBoot
        dropIndexOnly()
        index = opened
        indexFile = path == directory.index ? try? FileSystem.status(of: path) : nil
        reconciliation = Reconciliation()
    }

    /// Removes a database with further names, unless it is another program's.
    private static func removeShared(_ path: String) throws(SQLiteError) {
        guard CacheDirectory.isShared(database: path) else { return }
        if CacheIndex.isForeign(path) { throw .foreign }
        CacheDirectory.remove(database: path)
    }

    private static func obstacle(_ error: SQLiteError, _ database: String) -> Obstacle {
        if error.isForeign {
            return Obstacle(
                .off, "\(database) is the database of another program: name another directory for the cache")
        }
        return Obstacle(error.isLackOfSpace ? .full : .readOnly, "\(database) cannot be written: \(error)")
    }

    /// Uses the small entries. After an error the pending writes are lost; after damage all small entries are.
    @discardableResult
    func withSmall<Value>(_ body: (CacheIndex) throws -> Value?) -> Value? {
        guard let small else { return nil }
        do { return try body(small) } catch {
            let error = SQLiteError(error)
            databaseErrors += 1
            endKeeps(areKept: false)
            if isReplaceable(after: error, &lastSmallLoss) {
                log.warning(.disk, "the small entries of \(directory.path) are lost: \(error)")
                _ = replaceSmall()
            } else {
                log.info(.disk, "the small entries of \(directory.path) cannot be used: \(error)")
                setObstacle(Self.obstacle(error, "the database of small entries"))
                do throws(SQLiteError) { try small.rollBack() } catch { dropSmall() }
            }
            return nil
        }
    }

    /// Uses the index. After an error the index is replaced, and rebuilt from the files.
    @discardableResult
    func withIndex<Value>(_ body: (CacheIndex) throws -> Value?) -> Value? {
        guard let index else { return nil }
        do { return try body(index) } catch {
            let error = SQLiteError(error)
            databaseErrors += 1
            log.warning(.disk, "the index of \(directory.path) is lost: \(error)")
            dropIndexOnly()
            if isReplaceable(after: error, &lastRebuild) {
                CacheDirectory.remove(database: directory.index)
                if let obstacle = openIndex() { setObstacle(obstacle) }
            } else {
                setObstacle(Self.obstacle(error, "the index"))
                openIndexInMemory()
            }
            return nil
        }
    }

    /// Whether a database can be made anew after an error. Repeated damage means that the disk is damaged.
    private func isReplaceable(after error: SQLiteError, _ lastDamage: inout Instant?) -> Bool {
        let isRepeated = lastDamage.map { $0.adding(milliseconds: 10_000) > .now } ?? false
        guard error.isDamage, !isRepeated, lock != nil else { return false }
        lastDamage = .now
        return true
    }

    var pendingWrites: Int { (index?.pendingWrites ?? 0) + (small?.pendingWrites ?? 0) }

    /// Whether the pending writes would let the logs exceed their size.
    var isLogDue: Bool {
        // A write changes a few pages, some of which others change, too.
        let writes = options.indexLogBytes / (4 * CacheIndex.block)
        return index?.pendingWrites ?? 0 >= writes || small?.pendingWrites ?? 0 >= writes
            || small?.pendingBytes ?? 0 >= options.indexLogBytes / 2
    }

    var pendingUses: Int { small?.pendingUses ?? 0 }

    func commit(withUses: Bool = true) {
        withIndex { try $0.commit() }
        if withUses { withSmall { try $0.writeUses() } }
        commitSmall()
    }

    /// Gives back memory that makes nothing but the next access to the databases faster.
    func releaseMemory() {
        index?.releaseMemory()
        small?.releaseMemory()
        CurrentProcess.returnFreedMemory()
    }

    /// Commits the pending writes of small entries; false when they are lost.
    @discardableResult
    func commitSmall() -> Bool {
        guard small?.pendingWrites ?? 0 > 0 else { return true }
        mayOverrun = true
        let isDone = withSmall { try $0.commit() } != nil
        endKeeps(areKept: isDone)
        return isDone
    }

    // MARK: Jobs

    var hasPendingKeeps: Bool { !keeps.pending.isEmpty }

    func addPendingKeep(_ job: Int) {
        // It may have been committed at once.
        if small?.pendingWrites ?? 0 > 0 { keeps.pending.append(job) } else { keeps.ended.append((job, true)) }
    }

    private func endKeeps(areKept: Bool) {
        keeps.ended += keeps.pending.map { ($0, areKept) }
        keeps.pending = []
    }

    /// Takes the jobs whose entries were committed, or lost.
    func takeEndedKeeps() -> [(job: Int, isKept: Bool)] {
        defer { keeps.ended = [] }
        return keeps.ended
    }

    // MARK: Entries

    /// The current time, moved so that no order to forget or to clear covers entries that are written now.
    var now: Int { max(forgotten.timeAfter(WallClock.milliseconds), clears.timeAfter(0)) }

    enum Removal {
        case removed
        case absent
        case failed
    }

    /// Changes of the time of day by less are left to the order of eviction, which is no clock.
    private static let clockStep = 60_000
    /// The time of day on 1 January 2026: before it, a machine has not set its clock yet.
    private static let earliestTime = 1_767_225_600_000

    var hasPlausibleClock: Bool { WallClock.milliseconds >= Self.earliestTime }

    /// Moves all times of use with the time of day, if that was set since the last check: a machine may start in 1970,
    /// and all entries would seem old once its clock is right. The clock since the start of the machine counts
    /// suspensions, too.
    func followClock() {
        let offset = WallClock.milliseconds - WallClock.millisecondsSinceBoot
        let step = offset - clockOffset
        guard abs(step) >= Self.clockStep else { return }
        clockOffset = offset
        log.notice(.clock, "the time of day was set by \(step / 1000) s: the entries' times of use follow")
        let move = { (index: CacheIndex) throws(SQLiteError) in
            try index.moveLastUse(by: step)
            if self.hasPlausibleClock { try index.limitLastUse(to: self.now) }
        }
        withIndex(move)
        withSmall(move)
    }

    /// Removes an entry: its file and its row, or the small entry.
    @discardableResult
    func discard(_ name: EntryName) -> Removal {
        guard withSmall({ try $0.size(of: name) }) != nil else { return discardFile(name) }
        guard withSmall({ try $0.remove(name) }) != nil else { return .failed }
        // An older file is possible only until the reconciliation has removed it.
        return mayHaveFile(name) && discardFile(name) == .failed ? .failed : .removed
    }

    func mayHaveFile(_ name: EntryName) -> Bool {
        if reconciliation != nil, (try? FileSystem.status(of: directory.file(name))) != .some(nil) { return true }
        return withIndex { try $0.size(of: name) } != nil
    }

    /// Removes an entry's file and its row.
    @discardableResult
    func discardFile(_ name: EntryName) -> Removal {
        var removal = Removal.removed
        do throws(SystemError) {
            try FileDescriptor.remove(directory.file(name))
        } catch {
            guard error.isMissingPath || error.code == SystemError.isDirectory else {
                setObstacle(Obstacle(writing: directory.path, error))
                return .failed
            }
            removal = .absent
        }
        withIndex { try $0.remove(name) }
        return removal
    }

    /// Adds an entry's file to the index.
    func add(_ trailer: EntryTrailer, _ name: EntryName, size: Int, used: Int) {
        let row = Self.row(trailer, name, size: size, used: used)
        withIndex { try $0.insert(row) }
        noteSize(of: name.kind)
    }

    static func row(_ trailer: EntryTrailer, _ name: EntryName, size: Int, used: Int) -> CacheIndex.Row {
        switch trailer.content {
        case .original(let record):
            CacheIndex.Row(
                name: name, size: size, created: trailer.created, used: used, digest: record.digest, url: record.url,
                owner: record.owner)
        case .raster(let record, _):
            CacheIndex.Row(name: name, size: size, created: trailer.created, used: used, digest: record.original)
        }
    }
}
