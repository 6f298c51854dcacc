import DiskRecords
import HTTPValues
import LinuxSystem
import SystemValues

extension Store {
    private static let largestRoom = 1 << 26
    /// The size, in bytes, from which a body is not copied only to record that the origin was asked again within a
    /// minute.
    private static let costlyCopy = 1 << 20
    private static let sameTime = 60_000

    enum Keeping {
        case kept, notKept
        /// It is stored with the next commit.
        case pending
    }

    /// Stores an entry: a small one in the database, any other as a file.
    func keep(_ content: EntryTrailer.Content, body: EntryBody) -> Keeping {
        let now = now
        let trailer = EntryTrailer(content, created: now)
        guard let name = trailer.name, trailer.bodySize <= min(target(name.kind), options.largestBody) else {
            return .notKept
        }
        do throws(EntryProblem) {
            if let entry = try EntryFile.encode(trailer, body: body, most: min(options.smallEntry, target(name.kind))) {
                return keepSmall(entry.bytes, name, Self.row(entry.trailer, name, size: entry.bytes.count, used: now))
                    ? .pending : .notKept
            }
        } catch {
            log.warning(.entry, "not kept: \(error)")
            return .notKept
        }
        guard let file = try? body.file(), let status = try? file.status(), status.isRegular,
            status.size >= trailer.bodySize
        else { return .notKept }
        let isKept = publish(name, bodySize: trailer.bodySize, used: now) { (new) throws(EntryProblem) in
            try EntryFile.write(trailer, body: file, to: new)
        }
        return isKept ? .kept : .notKept
    }

    /// Writes a small entry, which is stored with the next commit; false when it is not.
    private func keepSmall(_ bytes: [UInt8], _ name: EntryName, _ row: CacheIndex.Row) -> Bool {
        guard obstacle == nil else { return false }
        // The directory may have been removed, and made again by another process. Once for all writes of a commit.
        if small?.pendingWrites ?? 0 == 0, !isPresent { open() }
        guard obstacle == nil, small != nil,
            withSmall({ try $0.insert(row, contents: bytes) }) != nil
        else { return false }
        noteSize(of: name.kind)
        // An older file must not be found any more, and not be removed before the entry is stored.
        if mayHaveFile(name) {
            guard commitSmall() else { return false }
            discardFile(name)
        }
        return true
    }

    /// Updates the record of a stored original. Does nothing when that was removed or has other bytes. The new file
    /// replaces the old one when it is complete, so that a complete one exists at any time.
    func update(_ record: OriginalRecord) {
        guard obstacle == nil, let name = EntryName.original(key: record.key) else { return }
        for source in sources {
            guard let entry = open(name, in: source), case .original(let old) = entry.trailer.content else { continue }
            guard old.digest == record.digest, old.bytes == record.bytes else { return }
            if source.isOwn {
                if !isRepetition(record, old) { rewrite(entry, name, as: record) }
            } else {
                // The extra directory cannot be written; without an entry here the origin would be asked again each
                // time.
                if let body = entry.descriptor.map({ .file($0) }) ?? (try? entry.copyBody()) {
                    _ = keep(.original(record), body: body)
                }
            }
            return
        }
    }

    /// Whether a record repeats a very recent one, and its file is costly to rewrite. The response then becomes stale
    /// earlier by the time between the two.
    private func isRepetition(_ record: OriginalRecord, _ old: OriginalRecord) -> Bool {
        var repeated = record
        repeated.response.requestedAt = old.response.requestedAt
        repeated.response.receivedAt = old.response.receivedAt
        repeated.response.date = old.response.date
        return record.bytes >= Self.costlyCopy && repeated == old
            && (0..<Self.sameTime).contains(record.response.receivedAt - old.response.receivedAt)
    }

    private func rewrite(_ entry: EntryFile, _ name: EntryName, as record: OriginalRecord) {
        // The bytes keep their age, and an update is not a use.
        let trailer = EntryTrailer(.original(record), created: entry.trailer.created)
        let used = lastUse(of: name) ?? entry.modified
        do throws(EntryProblem) {
            if let bytes = try entry.encoded(as: trailer, most: StoreOptions.largestSmallEntry) {
                _ = keepSmall(bytes, name, Self.row(trailer, name, size: bytes.count, used: used))
                return
            }
        } catch {
            return log.warning(.entry, "not updated: \(error)")
        }
        _ = publish(name, bodySize: record.bytes, used: used) { (file) throws(EntryProblem) in
            try entry.rewrite(as: trailer, to: file)
        }
    }

    /// Writes an entry's file and gives it its name, in place of an older one; false after a failure.
    private func publish(
        _ name: EntryName, bodySize: Int, used: Int,
        _ write: (FileDescriptor) throws(EntryProblem) -> (trailer: EntryTrailer, size: Int)
    ) -> Bool {
        guard obstacle == nil else { return false }
        // The directory may have been removed, and made again by another process.
        if !isPresent { open() }
        for attempt in 0...1 where obstacle == nil {
            do throws(EntryProblem) {
                let written = try publishOnce(name, write)
                add(written.trailer, name, size: written.size, used: used)
                withSmall { try $0.remove(name) }
                neededRoom = 0
                return true
            } catch {
                switch error {
                case .system(let error) where error.isMissingPath && attempt == 0: open()
                case .system(let error) where error.code == SystemError.isDirectory: return false
                case .system(let error):
                    if error.isLackOfSpace { neededRoom = min(bodySize, Self.largestRoom) }
                    setObstacle(Obstacle(writing: directory.path, error))
                case .damaged, .outdated, .absent:
                    log.warning(.entry, "not kept: \(error)")
                    return false
                }
            }
        }
        return false
    }

    private func publishOnce(
        _ name: EntryName, _ write: (FileDescriptor) throws(EntryProblem) -> (trailer: EntryTrailer, size: Int)
    ) throws(EntryProblem) -> (trailer: EntryTrailer, size: Int) {
        var file: CacheDirectory.TemporaryFile?
        do throws(SystemError) { file = try directory.createTemporary(for: name) } catch { throw .system(error) }
        guard let file else { throw .absent }
        defer { file.discard() }
        let written = try write(file.descriptor)
        // The limits apply to files.
        guard written.size <= target(name.kind) else { throw .damaged("it is larger than the limit") }
        do throws(SystemError) { try directory.publish(file, as: name) } catch { throw .system(error) }
        return written
    }
}
