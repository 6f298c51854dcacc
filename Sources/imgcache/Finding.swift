import IPCProtocol
import LinuxSystem
import SharedCache

extension Store {
    /// What `find` found.
    enum Found {
        case original(OriginalRecord, SealedBuffer)
        case raster(OriginalRecord, RasterRecord, SealedBuffer)
    }

    /// A directory to find entries in.
    struct Source {
        let directory: CacheDirectory
        /// Whether it is this process's own, and no extra one.
        let isOwn: Bool
    }

    /// After so long an entry's file is marked as used as well, so that the index's loss does not make all entries
    /// look unused.
    private static let markInterval = 3_600_000

    /// The directories to look into, in order.
    var sources: [Source] {
        [Source(directory: directory, isOwn: true)]
            + extras.directories.map { Source(directory: $0, isOwn: false) }
    }

    /// What the original of the first of these keys that is there and whole was made into in this form, else that
    /// original, unless only a raster is wanted.
    func find(keys: [String], form: String?, rasterOnly: Bool = false) -> Found? {
        for name in keys.compactMap(EntryName.original) {
            for source in sources {
                guard let original = open(name, in: source), case .original(let record) = original.trailer.content
                else { continue }
                if let form, let (raster, pixels) = findRaster(of: record, form: form) {
                    markUsed(original, name, source)
                    return .raster(record, raster, pixels)
                }
                // Another key's raster would be another picture.
                if rasterOnly { return nil }
                if let bytes = copyBody(of: original, name, source) {
                    markUsed(original, name, source)
                    return .original(record, bytes)
                }
            }
        }
        return nil
    }

    private func findRaster(of original: OriginalRecord, form: String) -> (RasterRecord, SealedBuffer)? {
        let name = EntryName.raster(original: original.digest, form: form)
        for source in sources {
            if let raster = open(name, in: source), case .raster(let record, _) = raster.trailer.content,
                let pixels = copyBody(of: raster, name, source)
            {
                markUsed(raster, name, source)
                return (record, pixels)
            }
        }
        return nil
    }

    /// What is known of the original of the first of these keys that is there. Its bytes are not read.
    func record(keys: [String]) -> OriginalRecord? {
        for name in keys.compactMap(EntryName.original) {
            for source in sources {
                if let entry = open(name, in: source), case .original(let record) = entry.trailer.content {
                    return record
                }
            }
        }
        return nil
    }

    /// Opens an entry in one of the directories; nil when it is not there, or counts as gone.
    func open(_ name: EntryName, in source: Source) -> EntryFile? {
        if source.isOwn, obstacle?.state == .locked || obstacle?.state == .off { return nil }
        let entry = reading(name, in: source) { () throws(EntryProblem) in
            try EntryFile(
                opening: source.directory.file(name), as: name, largestBody: options.largestBody)
        }
        guard let entry else { return nil }
        let isGone =
            source.isOwn
            ? forgotten.contains(entry.trailer) || orderToClear(entry, name) != nil : extras.hides(entry.trailer)
        return isGone ? nil : entry
    }

    private func copyBody(of entry: EntryFile, _ name: EntryName, _ source: Source) -> SealedBuffer? {
        reading(name, in: source) { () throws(EntryProblem) in try entry.copyBody() }
    }

    /// Reads an entry, and removes it when it proves to be none and is our own.
    private func reading<Value>(
        _ name: EntryName, in source: Source, _ body: () throws(EntryProblem) -> Value
    ) -> Value? {
        do throws(EntryProblem) {
            return try body()
        } catch {
            if source.isOwn { handle(error, name) } else { report(error, source.directory.file(name)) }
            return nil
        }
    }

    private func handle(_ problem: EntryProblem, _ name: EntryName) {
        switch problem {
        case .absent: withIndex { (index) throws(SQLiteError) in try index.remove(name) }
        case .damaged:
            log.warning("\(directory.file(name)) is removed: \(problem)")
            discard(name)
        case .outdated:
            log.info("\(directory.file(name)) is removed: \(problem)")
            discard(name)
        case .system(let error):
            log.info("\(directory.file(name)) cannot be read: \(problem)")
            noteRefusal(error)
        }
    }

    private func report(_ problem: EntryProblem, _ path: String) {
        switch problem {
        case .absent: return
        case .system(let error): noteRefusal(error)
        case .damaged, .outdated: break
        }
        guard extras.isNews(path) else { return }
        if case .damaged = problem {
            log.warning("\(path) is not used: \(problem)")
        } else {
            log.info("\(path) is not used: \(problem)")
        }
    }

    private func markUsed(_ entry: EntryFile, _ name: EntryName, _ source: Source) {
        guard source.isOwn else { return }
        let now = now
        let known = withIndex { (index) throws(SQLiteError) in try index.touch(name, at: now) }
        // A file that the index does not know yet.
        if known == false { add(entry.trailer, name, size: entry.status.size, used: now) }
        if entry.status.modified < now - Self.markInterval { try? FileSystem.markModified(directory.file(name)) }
    }

    /// Notes that the originals of these keys, and so what was made of them, were used.
    func touch(keys: [String]) {
        let now = now
        // What is to be cleared is not saved by this.
        let cleared = clears.latestUse ?? .min
        for name in keys.compactMap(EntryName.original) {
            withIndex { (index) throws(SQLiteError) in
                guard let last = try index.lastUse(of: name), last > cleared else { return }
                _ = try index.touch(name, at: now)
                try index.touchRasters(ofOriginal: name, at: now, usedAfter: cleared)
                if last < now - Self.markInterval { try? FileSystem.markModified(directory.file(name)) }
            }
        }
    }
}
