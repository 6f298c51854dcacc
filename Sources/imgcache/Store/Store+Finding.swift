import DiskRecords
import LinuxSystem
import SystemValues

extension Store {
    enum Found {
        case original(OriginalRecord, EntryBody)
        case raster(OriginalRecord, RasterRecord, EntryBody)
    }

    /// A directory to find entries in.
    struct Source {
        let directory: CacheDirectory
        let isOwn: Bool
        /// Its small entries while they cannot be written.
        let still: StillEntries

        init(_ directory: CacheDirectory, isOwn: Bool) {
            (self.directory, self.isOwn) = (directory, isOwn)
            still = StillEntries(path: directory.small)
        }
    }

    /// The age, in milliseconds, from which a file's modification time is updated when its entry is used. It keeps
    /// entries from looking unused after the index was lost.
    private static let markInterval = 3_600_000

    /// Finds the first of these keys with an intact original, and returns its raster in `form`. Without that raster it
    /// returns the original, unless `rasterOnly`.
    func find(keys: [String], form: String?, rasterOnly: Bool = false) -> Found? {
        for name in keys.compactMap(EntryName.original) {
            for source in sources {
                guard let original = open(name, in: source), case .original(let record) = original.trailer.content
                else { continue }
                if let form, let (raster, pixels) = findRaster(of: record, form: form) {
                    markUsed(original, name, source)
                    return .raster(record, raster, pixels)
                }
                // The raster of another key would be another image.
                if rasterOnly { return nil }
                if let bytes = copyBody(of: original, name, source) {
                    markUsed(original, name, source)
                    return .original(record, bytes)
                }
            }
        }
        return nil
    }

    private func findRaster(of original: OriginalRecord, form: String) -> (RasterRecord, EntryBody)? {
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

    /// The record of the first of these keys with an original. The body is not read.
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

    /// Opens an entry in one of the directories; nil when it is missing or counts as removed.
    func open(_ name: EntryName, in source: Source) -> EntryFile? {
        if source.isOwn, obstacle?.isOutOfReach == true { return nil }
        for isSmall in [true, false] {
            let entry = isSmall ? openSmall(name, in: source) : openFile(name, in: source)
            if let entry, !isGone(entry, name, source) { return entry }
        }
        return nil
    }

    private func openFile(_ name: EntryName, in source: Source) -> EntryFile? {
        willOpenFile()
        return reading(name, in: source) { () throws(EntryProblem) in
            try EntryFile(opening: source.directory.file(name), as: name, largestBody: options.largestBody)
        }
    }

    private func openSmall(_ name: EntryName, in source: Source) -> EntryFile? {
        if source.isOwn, small != nil {
            guard let (bytes, row) = withSmall({ try $0.contents(of: name) }) else { return nil }
            return reading(name, in: source) { () throws(EntryProblem) in
                try EntryFile(bytes, row: row, as: name, largestBody: options.largestBody)
            }
        }
        guard let (bytes, used) = source.still.contents(of: name) else { return nil }
        return reading(name, in: source) { () throws(EntryProblem) in
            try EntryFile(bytes, used: used, as: name, largestBody: options.largestBody)
        }
    }

    private func isGone(_ entry: EntryFile, _ name: EntryName, _ source: Source) -> Bool {
        source.isOwn
            ? forgotten.contains(entry.trailer) || orderToClear(entry, name) != nil
            : entry.trailer.isOwned || extras.hides(entry.trailer)
    }

    private func copyBody(of entry: EntryFile, _ name: EntryName, _ source: Source) -> EntryBody? {
        reading(name, in: source) { () throws(EntryProblem) in try entry.copyBody() }
    }

    /// Reads an entry. A damaged one is removed if it is in the own directory.
    private func reading<Value>(
        _ name: EntryName, in source: Source, _ body: () throws(EntryProblem) -> Value
    ) -> Value? {
        do throws(EntryProblem) {
            return try body()
        } catch {
            handle(error, name, source)
            return nil
        }
    }

    private func handle(_ problem: EntryProblem, _ name: EntryName, _ source: Source) {
        var consequence = "is removed"
        switch problem {
        case .absent:
            if source.isOwn, mayHaveFile(name) { dropRow(name) }
            return
        case .system: consequence = "cannot be read"
        case .damaged, .outdated: break
        }
        let path = source.directory.file(name)
        if source.isOwn || extras.isFirstReport(of: path) {
            let line = "\(path) \(source.isOwn ? consequence : "is not used"): \(problem)"
            if case .damaged = problem { log.warning(.entry, line) } else { log.info(.entry, line) }
        }
        if case .system(let error) = problem { noteRefusal(error) } else if source.isOwn { discard(name) }
    }

    private func markUsed(_ entry: EntryFile, _ name: EntryName, _ source: Source) {
        guard source.isOwn else { return }
        let now = now
        guard entry.descriptor != nil else {
            // Nothing can be written while there is an obstacle.
            if obstacle == nil, let row = entry.row { small?.touch(name.kind, row: row, at: now) }
            return
        }
        let known = withIndex { try $0.touch(name, at: now) }
        // The file is not in the index yet.
        if known == false { add(entry.trailer, name, size: entry.size, used: now) }
        if entry.modified < now - Self.markInterval { try? entry.descriptor?.setModified(now) }
    }

    /// Records a use of the originals of these keys, and of their rasters.
    func touch(keys: [String]) {
        let now = now
        // An entry that is to be cleared is not kept by a use.
        let cleared = clears.latestUse ?? .min
        for name in keys.compactMap(EntryName.original) {
            guard let digest = digest(ofOriginal: name) else { continue }
            let touch = { (index: CacheIndex) throws(SQLiteError) -> Int? in
                guard let last = try index.lastUse(of: name), last > cleared else { return nil }
                _ = try index.touch(name, at: now)
                return last
            }
            let inSmall = obstacle == nil ? withSmall(touch) : nil
            let last = withIndex(touch)
            guard inSmall != nil || last != nil else { continue }
            let touchRasters = { (index: CacheIndex) throws(SQLiteError) in
                try index.touchRasters(ofDigest: digest, at: now, usedAfter: cleared)
            }
            withIndex(touchRasters)
            if obstacle == nil { withSmall(touchRasters) }
            // By descriptor: the sandbox cannot restrict where a path leads.
            if let last, last < now - Self.markInterval {
                try? FileSystem.openUntrusted(directory.file(name)).setModified(now)
            }
        }
    }
}
