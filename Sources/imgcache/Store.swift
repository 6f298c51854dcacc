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
        /// After how many milliseconds it is tried again what did not work.
        var retryInterval = 30_000

        func limit(_ kind: EntryKind) -> Int {
            kind == .originals ? diskLimit : rasterLimit
        }
    }

    /// What `find` found.
    enum Found {
        case original(OriginalRecord, SealedBuffer)
        case raster(OriginalRecord, RasterRecord, SealedBuffer)
    }

    /// After so long an entry's file is marked as used as well, so that the index's loss does not make all entries
    /// look unused.
    private static let markInterval = 3_600_000

    let options: Options
    let directory: CacheDirectory
    let log: Log
    private var lock: FileDescriptor?
    private(set) var index: CacheIndex?
    /// The index's file; nil when the index is in memory only.
    private var indexFile: FileSystem.Status?
    private var lastRebuild: Instant?
    private(set) var obstacle: Obstacle?
    /// The bytes for which no room was left: for as many there must be some before anything is kept again.
    private var neededRoom = smallestRoom
    private static let smallestRoom = 1 << 16
    private static let largestRoom = 1 << 26
    /// When the obstacle is looked at again.
    private(set) var retryAt: Instant?

    // What eviction, reconciliation and forgetting remember.
    var shrinking: Set<EntryKind> = []
    var nextAgeCheck = Instant.now
    var reconciliation: Reconciliation?
    var forgotten = ForgottenURLs()

    init(_ options: Options, log: Log) {
        self.options = options
        self.log = log
        directory = CacheDirectory(path: options.directory)
    }

    /// How it is doing.
    var report: DiskReport {
        let totals = (index?.totals ?? [:]).values
        return DiskReport(
            state: obstacle?.state ?? .on, reason: obstacle?.reason, entries: totals.reduce(0) { $0 + $1.entries },
            bytes: totals.reduce(0) { $0 + $1.bytes })
    }

    // MARK: Opening

    /// Opens the directory, or sees whether what stood in the way still does.
    func open() {
        let opened = directory.open(holding: lock, room: neededRoom)
        lock = opened.lock
        note(opened.obstacle)
        switch obstacle?.state {
        case .locked, .off: dropIndex()
        case .readOnly: if index == nil { openIndex(path: ":memory:") }
        case .full: if index == nil { openIndex(path: directory.index) }
        case .on, nil:
            if !hasIndexFile { openIndex(path: directory.index) }
            forgetAgain()
        }
    }

    /// Tries again when it is time to.
    func retryIfDue() {
        if let retryAt, retryAt <= .now { open() }
    }

    /// Notes what stands in the way, or that nothing does.
    func note(_ new: Obstacle?) {
        // Another process ends without notice, so its lock is looked at more often.
        let interval = new?.state == .locked ? min(options.retryInterval, 3000) : options.retryInterval
        retryAt = new.map { _ in Instant.now.adding(milliseconds: interval) }
        guard new != obstacle else { return }
        if let new {
            log.warning("the disk tier is \(new.state.rawValue): \(new.reason)")
        } else {
            log.notice("the disk tier is on again")
        }
        obstacle = new
    }

    private var hasIndexFile: Bool {
        guard index != nil, let indexFile, let there = try? FileSystem.status(of: directory.index) else { return false }
        return there.isSameFile(as: indexFile)
    }

    private func dropIndex() {
        index = nil
        indexFile = nil
        reconciliation = nil
        shrinking = []
    }

    private func openIndex(path: String) {
        dropIndex()
        for attempt in 0...2 {
            do throws(SQLiteError) {
                let path = attempt == 2 ? ":memory:" : path
                let opened = try CacheIndex(path: path)
                try opened.limitLastUse(to: WallClock.milliseconds)
                index = opened
                indexFile = path == directory.index ? try? FileSystem.status(of: path) : nil
                reconciliation = Reconciliation()
                return
            } catch {
                log.warning("the index of \(directory.path) is made anew: \(error)")
                // Without the lock, the files may be another's.
                if error.isDamage, lock != nil { directory.removeIndex() }
                if attempt == 1, obstacle == nil {
                    note(Obstacle(error.isLackOfSpace ? .full : .readOnly, "the index cannot be written: \(error)"))
                }
            }
        }
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
            if error.isDamage, !isRepeated {
                lastRebuild = .now
                directory.removeIndex()
                openIndex(path: directory.index)
            } else {
                note(Obstacle(error.isLackOfSpace ? .full : .readOnly, "the index cannot be written: \(error)"))
                openIndex(path: ":memory:")
            }
            return nil
        }
    }

    /// Makes the index's writes so far lasting.
    func commit() {
        withIndex { (index) throws(SQLiteError) in try index.commit() }
    }

    // MARK: Finding

    /// What the original of a key was made into in this form, else the original.
    func find(key: String, form: String?, rasterOnly: Bool = false) -> Found? {
        guard let name = EntryName.original(key: key), let original = openEntry(name),
            case .original(let record) = original.trailer.content
        else { return nil }
        if let form {
            let rasterName = EntryName.raster(original: record.digest, form: form)
            if let raster = openEntry(rasterName), case .raster(let rasterRecord, _) = raster.trailer.content,
                let pixels = copyBody(raster, rasterName)
            {
                markUsed(rasterName, raster)
                markUsed(name, original)
                return .raster(record, rasterRecord, pixels)
            }
        }
        guard !rasterOnly, let bytes = copyBody(original, name) else { return nil }
        markUsed(name, original)
        return .original(record, bytes)
    }

    /// Whether the original of a key is there.
    func contains(key: String) -> Bool {
        EntryName.original(key: key).flatMap(openEntry) != nil
    }

    private func openEntry(_ name: EntryName) -> EntryFile? {
        guard obstacle?.state != .locked, obstacle?.state != .off else { return nil }
        let entry = reading(name) { () throws(EntryProblem) in
            try EntryFile(opening: directory.file(name), as: name)
        }
        guard let entry, !forgotten.contains(entry.trailer) else { return nil }
        return entry
    }

    private func copyBody(_ entry: EntryFile, _ name: EntryName) -> SealedBuffer? {
        reading(name) { () throws(EntryProblem) in try entry.copyBody() }
    }

    /// Reads an entry, and removes it when it proves to be none.
    private func reading<Value>(_ name: EntryName, _ body: () throws(EntryProblem) -> Value) -> Value? {
        do throws(EntryProblem) {
            return try body()
        } catch {
            switch error {
            case .absent: withIndex { (index) throws(SQLiteError) in try index.remove(name) }
            case .damaged:
                log.warning("\(directory.file(name)) is removed: \(error)")
                discard(name)
            case .system: log.info("\(directory.file(name)) cannot be read: \(error)")
            }
            return nil
        }
    }

    /// Removes an entry's file and what the index knows of it. False when the file is there still.
    @discardableResult
    func discard(_ name: EntryName) -> Bool {
        do throws(SystemError) {
            try FileDescriptor.remove(directory.file(name))
        } catch {
            guard error.isMissingPath || error.code == SystemError.isDirectory else {
                note(Obstacle(writing: directory.path, error))
                return false
            }
        }
        withIndex { (index) throws(SQLiteError) in try index.remove(name) }
        return true
    }

    private func markUsed(_ name: EntryName, _ entry: EntryFile) {
        let now = WallClock.milliseconds
        let known = withIndex { (index) throws(SQLiteError) in try index.touch(name, at: now) }
        // A file that the index does not know yet.
        if known == false { add(entry.trailer, name, size: entry.status.size, used: now) }
        if entry.status.modified < now - Self.markInterval { try? FileSystem.markModified(directory.file(name)) }
    }

    /// Notes that the originals of these keys, and so what was made of them, were used.
    func touch(keys: [String]) {
        let now = WallClock.milliseconds
        for name in keys.compactMap(EntryName.original) {
            withIndex { (index) throws(SQLiteError) in
                guard let last = try index.lastUse(of: name) else { return }
                _ = try index.touch(name, at: now)
                try index.touchRasters(ofOriginal: name, at: now)
                if last < now - Self.markInterval { try? FileSystem.markModified(directory.file(name)) }
            }
        }
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

    // MARK: Keeping

    /// Keeps an entry; false when it is not kept.
    func keep(_ content: EntryTrailer.Content, body: FileDescriptor) -> Bool {
        let now = WallClock.milliseconds
        let trailer = EntryTrailer(content, created: forgotten.timeAfter(now))
        guard obstacle == nil, let name = trailer.name, trailer.bodySize <= target(name.kind),
            let status = try? body.status(), status.isRegular, status.size >= trailer.bodySize
        else { return false }
        // The directory may have been removed, and another process may have made it anew.
        if lock.map(directory.isLocked) != true || !hasIndexFile { open() }
        for attempt in 0...1 where obstacle == nil {
            do throws(EntryProblem) {
                let written = try write(trailer, name, body: body)
                add(written.trailer, name, size: written.size, used: now)
                neededRoom = Self.smallestRoom
                return true
            } catch {
                switch error {
                case .system(let error) where error.isMissingPath && attempt == 0: open()
                case .system(let error) where error.code == SystemError.isDirectory: return false
                case .system(let error):
                    if error.isLackOfSpace {
                        neededRoom = min(max(trailer.bodySize, Self.smallestRoom), Self.largestRoom)
                    }
                    note(Obstacle(writing: directory.path, error))
                case .damaged, .absent:
                    log.warning("not kept: \(error)")
                    return false
                }
            }
        }
        return false
    }

    private func write(
        _ trailer: EntryTrailer, _ name: EntryName, body: FileDescriptor
    ) throws(EntryProblem) -> (trailer: EntryTrailer, size: Int) {
        var file: CacheDirectory.TemporaryFile?
        do throws(SystemError) { file = try directory.createTemporary() } catch { throw .system(error) }
        guard let file else { throw .absent }
        defer { file.discard() }
        let written = try EntryFile.write(trailer, body: body, to: file.descriptor)
        // The limits are of files.
        guard written.size <= target(name.kind) else { throw .damaged("it is larger than the limit") }
        do throws(SystemError) { try directory.publish(file, as: name) } catch { throw .system(error) }
        return written
    }
}
