import IPCProtocol
import LinuxSystem
import SharedCache

/// The disk tier: a directory of self-describing files, and an index of what they are.
///
/// What is found is decided by the files alone. The index decides what is evicted, and may be lost at any time.
final class Store {
    /// How the disk tier is to be run.
    struct Options: Equatable {
        var directory: String
        /// The most bytes of originals.
        var diskLimit: Int
        /// The most bytes of rasters.
        var rasterLimit: Int
        /// For how many milliseconds after its last use an entry is kept; nil: for ever.
        var maxAge: Int?
        /// The most bytes of one original's or raster's body.
        var largestBody = Int.max
        /// Directories of the same form in which is looked as well.
        var extraDirectories: [String] = []
        /// After how many milliseconds it is tried again what did not work.
        var retryInterval = 30_000

        func limit(_ kind: EntryKind) -> Int {
            kind == .originals ? diskLimit : rasterLimit
        }
    }

    let options: Options
    let directory: CacheDirectory
    let log: Log
    private(set) var lock: FileDescriptor?
    private(set) var index: CacheIndex?
    /// The index's file; nil when the index is in memory only.
    private var indexFile: FileSystem.Status?
    private var lastRebuild: Instant?
    private(set) var obstacle: Obstacle?
    /// The bytes for which no room was left: for as many there must be some before anything is kept again.
    var neededRoom = 0
    /// When the obstacle is looked at again.
    private(set) var retryAt: Instant?
    /// What this process may reach; nil while it may reach everything.
    private var confinement: Confinement?
    /// When this process is to end, so that another takes its place that may reach what there is now.
    private(set) var leaveAt: Instant?

    // What eviction, reconciliation, forgetting and clearing remember.
    var shrinking: Set<EntryKind> = []
    var nextAgeCheck = Instant.now
    var reconciliation: Reconciliation?
    var forgotten = ForgottenURLs()
    var clears = ClearOrders()
    var extras: ExtraDirectories

    init(_ options: Options, log: Log) {
        self.options = options
        self.log = log
        directory = CacheDirectory(path: options.directory)
        extras = ExtraDirectories(options.extraDirectories.filter { $0 != options.directory })
    }

    /// How it is doing.
    var report: DiskReport {
        let totals = (index?.totals ?? [:]).values
        return DiskReport(
            state: obstacle?.state ?? .on, reason: obstacle?.reason, entries: totals.reduce(0) { $0 + $1.entries },
            bytes: totals.reduce(0) { $0 + $1.bytes },
            // Until all files are seen, nobody knows; nor of those in other directories.
            mayHaveOwned: index?.mayHaveOwned == true || reconciliation != nil || !options.extraDirectories.isEmpty)
    }

    // MARK: Opening

    private static let smallestRoom = 1 << 16

    /// Does, before the sandbox is entered, what that leaves no right to: makes the directory, and locks it. Files that
    /// anybody may have put there are left for `open`, which is to follow unless there is an obstacle now.
    func prepare() {
        let taken = directory.take(holding: nil)
        lock = taken.lock
        switch taken.obstacle?.state {
        case .locked, .off: note(taken.obstacle)
        // What keeps it from writing shows again.
        case .readOnly, .full, .on, nil: break
        }
    }

    /// Opens the directory, or sees whether what stood in the way still does.
    func open() {
        if confinement?.holds(options.directory) == false {
            dropIndex()
            lock = nil
            note(Obstacle(.off, "\(directory.path) was removed or replaced"))
            return leave()
        }
        let opened = directory.open(holding: lock, room: max(neededRoom, Self.smallestRoom))
        lock = opened.lock
        var found = opened.obstacle
        switch found?.state {
        case .locked, .off: dropIndex()
        case .readOnly: if index == nil { openIndexInMemory() }
        case .full: if index == nil { _ = openIndex() }
        case .on, nil: if !hasIndexFile { found = openIndex() }
        }
        note(found)
        switch found?.state {
        case .locked, .off, .readOnly: break
        case .on, nil:
            forgetAgain()
            clears.isStalled = false
        case .full: clears.isStalled = false
        }
    }

    /// Tries again when it is time to.
    func retryIfDue() {
        guard let retryAt, retryAt <= .now else { return }
        // Where there is no directory, none can be made from within the sandbox.
        if confinement != nil, obstacle?.state == .off {
            note(obstacle)
            leave()
        } else {
            open()
        }
    }

    // MARK: The sandbox

    /// From now on only what has the directories' paths at this moment can be reached.
    func confine() {
        confinement = Confinement(options)
    }

    /// A file could not be opened: because it lies in a directory that has come since.
    func noteRefusal(_ error: SystemError) {
        guard let confinement, error.isLackOfRights else { return }
        let all = [options.directory] + options.extraDirectories
        if !all.allSatisfy(confinement.holds) { leave() }
    }

    /// Ends this process soon, but none within its first second: what happens time and again is not to keep starting
    /// processes.
    private func leave() {
        guard leaveAt == nil, let confinement else { return }
        log.info("the directories are not what they were: another process takes over")
        leaveAt = max(.now, confinement.since.adding(milliseconds: min(options.retryInterval, 1000)))
    }

    /// Notes what stands in the way, or that nothing does.
    func note(_ new: Obstacle?) {
        // Another process ends without notice, so its lock is looked at more often.
        let interval = new?.state == .locked ? min(options.retryInterval, 3000) : options.retryInterval
        retryAt = new.map { _ in Instant.now.adding(milliseconds: interval) }
        guard new != obstacle else { return }
        if let new {
            // The broker says so, too, and says it once.
            log.info("the disk tier is \(new.state.rawValue): \(new.reason)")
        } else {
            log.info("the disk tier is on again")
        }
        obstacle = new
    }

    /// Whether the index is still that of the directory.
    var hasIndexFile: Bool {
        guard index != nil, let indexFile, let there = try? FileSystem.status(of: directory.index) else { return false }
        return there.isSameFile(as: indexFile)
    }

    private func dropIndex() {
        index = nil
        indexFile = nil
        reconciliation = nil
        shrinking = []
    }

    /// Opens the directory's index. Where it cannot be used, any other stays, or one in memory takes its place.
    ///
    /// - Returns: what stands in the way.
    private func openIndex() -> Obstacle? {
        var failure: SQLiteError?
        for _ in 0...1 {
            do throws(SQLiteError) {
                try useIndex(at: directory.index)
                return nil
            } catch {
                // What is no damage is tried again and again, and the broker says why.
                let line = "the index of \(directory.path) cannot be used: \(error)"
                if error.isDamage { log.warning(line) } else { log.info(line) }
                failure = error
                // Without the lock, the files may be another's.
                guard error.isDamage, lock != nil else { break }
                directory.removeIndex()
            }
        }
        if index == nil { openIndexInMemory() }
        return failure.map(Self.obstacle)
    }

    private func openIndexInMemory() {
        do throws(SQLiteError) {
            try useIndex(at: ":memory:")
        } catch {
            log.warning("there is no index: \(error)")
        }
    }

    private func useIndex(at path: String) throws(SQLiteError) {
        let opened = try CacheIndex(path: path)
        try opened.limitLastUse(to: now)
        dropIndex()
        index = opened
        indexFile = path == directory.index ? try? FileSystem.status(of: path) : nil
        reconciliation = Reconciliation()
    }

    private static func obstacle(_ error: SQLiteError) -> Obstacle {
        Obstacle(error.isLackOfSpace ? .full : .readOnly, "the index cannot be written: \(error)")
    }

    /// Uses the index. When that fails the index is replaced, and the files are looked through for a new one.
    @discardableResult
    func withIndex<Value>(_ body: (CacheIndex) throws(SQLiteError) -> Value) -> Value? {
        guard let index else { return nil }
        do throws(SQLiteError) {
            return try body(index)
        } catch {
            log.warning("the index of \(directory.path) is lost: \(error)")
            dropIndex()
            // One that is damaged again at once shows that the disk is.
            let isRepeated = lastRebuild.map { $0.adding(milliseconds: 10_000) > .now } ?? false
            if error.isDamage, !isRepeated, lock != nil {
                lastRebuild = .now
                directory.removeIndex()
                if let obstacle = openIndex() { note(obstacle) }
            } else {
                note(Self.obstacle(error))
                openIndexInMemory()
            }
            return nil
        }
    }

    /// Makes the index's writes so far lasting.
    func commit() {
        withIndex { (index) throws(SQLiteError) in try index.commit() }
    }

    // MARK: Entries

    /// The time, such that nothing that happens now counts as before an order to forget or to clear.
    var now: Int { max(forgotten.timeAfter(WallClock.milliseconds), clears.timeAfter(0)) }

    /// What became of a file that was to be removed.
    enum Removal {
        case removed
        /// There was none.
        case absent
        case failed
    }

    /// Removes an entry's file and what the index knows of it.
    @discardableResult
    func discard(_ name: EntryName) -> Removal {
        var removal = Removal.removed
        do throws(SystemError) {
            try FileDescriptor.remove(directory.file(name))
        } catch {
            guard error.isMissingPath || error.code == SystemError.isDirectory else {
                note(Obstacle(writing: directory.path, error))
                return .failed
            }
            removal = .absent
        }
        withIndex { (index) throws(SQLiteError) in try index.remove(name) }
        return removal
    }

    /// Adds an entry to the index.
    func add(_ trailer: EntryTrailer, _ name: EntryName, size: Int, used: Int) {
        withIndex { (index) throws(SQLiteError) in
            switch trailer.content {
            case .original(let record):
                try index.insert(
                    CacheIndex.Row(
                        name: name, size: size, created: trailer.created, used: used, digest: record.digest,
                        url: record.url, owner: record.owner))
            case .raster(let record, _):
                try index.insert(
                    CacheIndex.Row(
                        name: name, size: size, created: trailer.created, used: used, digest: record.original))
            }
        }
        noteSize(of: name.kind)
    }
}
