import LinuxSystem
import WorkerProtocol

/// The directory of the cache:
///
///     CACHEDIR.TAG              tells backups to leave it out
///     lock                      locked by the process that uses the directory
///     index.sqlite              see `CacheIndex`
///     small.sqlite              the small entries, see `CacheIndex`
///     originals/ab/<key>        see `EntryFile`
///     rasters/ab/<digest>
///     quarantine                see `QuarantineFile`
///     …/.tmp-…                  a file that is being written, on a file system where it needs a name
struct CacheDirectory {
    let path: String

    private static let tagName = "CACHEDIR.TAG"
    private static let indexName = "index.sqlite"
    private static let smallName = "small.sqlite"
    private static let lockName = "lock"
    private static let quarantineName = "quarantine"
    private static let temporaryPrefix = ".tmp-"
    // The first line is specified at https://bford.info/cachedir/
    private static let tag = """
        Signature: 8a477f597d28d172789f06886806bc55
        # This directory is the cache of imgbroker. It can be removed at any time.

        """

    var index: String { path + "/" + Self.indexName }

    var small: String { path + "/" + Self.smallName }

    var quarantine: String { path + "/" + Self.quarantineName }

    /// The path of the quarantine's successor while that is written.
    var quarantineTemporary: String { path + "/" + Self.temporaryPrefix + Self.quarantineName }

    private var lockFile: String { path + "/" + Self.lockName }

    func directory(of kind: EntryKind) -> String { "\(path)/\(kind)" }

    func directory(of kind: EntryKind, prefix: String) -> String { "\(directory(of: kind))/\(prefix)" }

    func file(_ name: EntryName) -> String { "\(directory(of: name.kind, prefix: name.prefix))/\(name.fileName)" }

    // MARK: Opening

    /// Makes the directory if it is missing, and locks it. `held` is the lock that this process already has, possibly
    /// on a directory that was removed since. Reads file names only, no contents.
    func take(holding held: FileDescriptor?) -> (lock: FileDescriptor?, obstacle: Obstacle?) {
        do throws(Obstacle) {
            try make()
            var writing: Obstacle?
            let lock = try lock(holding: held, &writing)
            return (lock, writing)
        } catch {
            return (nil, error)
        }
    }

    /// Locks the directory and makes its missing parts. The obstacle is `full` unless `room` bytes can be allocated.
    func open(holding held: FileDescriptor?, room: Int) -> (lock: FileDescriptor?, obstacle: Obstacle?) {
        var taken = take(holding: held)
        if taken.obstacle == nil { taken.obstacle = establish(room: room) }
        return taken
    }

    /// Makes the directory and gives it to the user that this process is about to become, who may have no right to make
    /// it.
    func make(for uid: UInt32, gid: UInt32) throws(Obstacle) {
        try make()
        do throws(SystemError) {
            // `make` refuses a directory with other files, and accepts an empty one.
            if let status = try FileSystem.status(of: path), status.owner != uid {
                try FileSystem.changeOwner(of: path, uid: uid, gid: gid)
            }
        } catch {
            throw Obstacle(.off, "\(path) cannot be given to user \(uid): \(error.sentence)")
        }
    }

    private func make() throws(Obstacle) {
        do throws(SystemError) {
            if try FileSystem.status(of: path) == nil {
                for (offset, byte) in path.utf8.enumerated().dropFirst() where byte == UInt8(ascii: "/") {
                    try FileSystem.makeDirectory(String(decoding: path.utf8.prefix(offset), as: UTF8.self), mode: 0o755)
                }
                // The names of the images that users requested are private.
                try FileSystem.makeDirectory(path, mode: 0o700)
            }
            guard let status = try FileSystem.status(of: path), status.isDirectory else {
                throw SystemError("mkdir", code: SystemError.notDirectory)
            }
            // A mistaken path must neither mark a user's files as a cache, nor mix with them.
            let names = Set(try FileSystem.names(in: path))
            if names.contains(Self.indexName) || names.isSuperset(of: EntryKind.allCases.map(\.rawValue)) { return }
            let own =
                EntryKind.allCases.map(\.rawValue) + [Self.tagName, Self.lockName, Self.quarantineName, "lost+found"]
            let foreign = names.first { !own.contains($0) && !$0.hasPrefix(Self.temporaryPrefix) }
            if foreign == nil { return }
        } catch {
            throw Obstacle(.off, "\(path) cannot be used: \(error.sentence)")
        }
        throw Obstacle(.off, "\(path) holds files that are not a cache's")
    }

    private func lock(holding held: FileDescriptor?, _ writing: inout Obstacle?) throws(Obstacle) -> FileDescriptor? {
        if let held, isLocked(by: held) { return held }
        var file: FileDescriptor?
        do throws(SystemError) {
            file = try FileSystem.openOrCreate(lockFile, mode: 0o600)
        } catch {
            writing = Obstacle(writing: path, error)
            // The lock of a process with the right to write can still be read. Without the file there is no such
            // process.
            file = try? FileSystem.openUntrusted(lockFile)
        }
        guard let file else { return nil }
        do throws(SystemError) {
            if try !file.tryLock() { throw SystemError("flock", code: SystemError.busy) }
        } catch {
            throw error.code == SystemError.busy
                ? Obstacle(.locked, "another process uses \(path)")
                : Obstacle(.off, "\(path) cannot be locked: \(error.sentence)")
        }
        return file
    }

    /// Whether `lock` is on the lock file that other processes see; false when the directory was removed.
    func isLocked(by lock: FileDescriptor) -> Bool {
        guard let there = try? FileSystem.status(of: lockFile), let held = try? lock.status() else { return false }
        return there.isSameFile(as: held)
    }

    private func establish(room: Int) -> Obstacle? {
        do throws(SystemError) {
            for kind in EntryKind.allCases { try makeSubdirectory(directory(of: kind)) }
            let tagFile = "\(path)/\(Self.tagName)"
            let tag = try FileSystem.status(of: tagFile)
            if tag?.size ?? 0 == 0 {
                // An empty file may have another name elsewhere.
                if tag != nil { try FileDescriptor.remove(tagFile) }
                try FileSystem.createNew(tagFile, mode: 0o644).write(Self.tag.utf8Span.span, at: 0)
            }
            // Directories and small files may find room where no entry does.
            let trial = try createTemporary(in: path)
            defer { trial.discard() }
            try trial.descriptor.allocate(room)
            return nil
        } catch {
            return Obstacle(writing: path, error)
        }
    }

    // MARK: Entries

    struct TemporaryFile {
        let descriptor: FileDescriptor
        /// Its path; nil where the file system does without (O_TMPFILE).
        let path: String?

        /// Removes the file, unless it was published.
        func discard() { if let path { try? FileDescriptor.remove(path) } }
    }

    /// Creates a file to be filled and published as `name`, in the directory of that name: version 1 of Landlock cannot
    /// allow a move to another directory.
    func createTemporary(for name: EntryName) throws(SystemError) -> TemporaryFile {
        let folder = directory(of: name.kind, prefix: name.prefix)
        do throws(SystemError) {
            return try createTemporary(in: folder)
        } catch {
            guard error.isMissingPath else { throw error }
            try makeSubdirectory(directory(of: name.kind))
            try makeSubdirectory(folder)
            return try createTemporary(in: folder)
        }
    }

    private func createTemporary(in folder: String) throws(SystemError) -> TemporaryFile {
        if let file = try FileSystem.createNameless(in: folder, mode: 0o600) {
            return TemporaryFile(descriptor: file, path: nil)
        }
        let name = temporaryName(in: folder)
        return TemporaryFile(descriptor: try FileSystem.createNew(name, mode: 0o600), path: name)
    }

    private func makeSubdirectory(_ path: String) throws(SystemError) {
        if try FileSystem.makeDirectory(path, mode: 0o700) { return }
        if try FileSystem.status(of: path)?.isDirectory == true { return }
        // Anything else with the name is not an entry, and blocks all entries of the directory.
        try FileDescriptor.remove(path)
        try FileSystem.makeDirectory(path, mode: 0o700)
    }

    /// Gives a complete file its name, and replaces an older file with that name.
    func publish(_ file: TemporaryFile, as name: EntryName) throws(SystemError) {
        let target = self.file(name)
        if let named = file.path { return try FileDescriptor.rename(named, to: target) }
        do throws(SystemError) {
            try FileSystem.link(file.descriptor, as: target)
        } catch {
            guard error.code == SystemError.exists else { throw error }
            // A link cannot replace a file; a rename does so atomically.
            let second = temporaryName(in: directory(of: name.kind, prefix: name.prefix))
            try FileSystem.link(file.descriptor, as: second)
            do throws(SystemError) {
                try FileDescriptor.rename(second, to: target)
            } catch {
                try? FileDescriptor.remove(second)
                throw error
            }
        }
    }

    private func temporaryName(in folder: String) -> String {
        "\(folder)/\(Self.temporaryPrefix)\(CurrentProcess.pid)"
    }

    /// Removes files that an earlier process left half written. Those in subdirectories are left to the reconciliation,
    /// which removes every file that is not an entry.
    func removeTemporaries() throws(SystemError) {
        for name in try FileSystem.names(in: path) where name.hasPrefix(Self.temporaryPrefix) {
            try? FileDescriptor.remove("\(path)/\(name)")
        }
    }

    private static func files(ofDatabase path: String) -> [String] {
        ["", "-wal", "-shm", "-journal"].map { path + $0 }
    }

    /// Whether a file of a database has another name too, as in a copy made of hard links. Writing to it would change
    /// the copy, or a file that is no cache's.
    static func isShared(database path: String) -> Bool {
        files(ofDatabase: path).contains { ((try? FileSystem.status(of: $0))?.links ?? 0) > 1 }
    }

    static func remove(database path: String) {
        for file in files(ofDatabase: path) { try? FileDescriptor.remove(file) }
    }

    /// Whether the index is a database of another program, found where no cache is: the path is a mistake.
    var isForeign: Bool {
        let isMade = EntryKind.allCases.allSatisfy { ((try? FileSystem.status(of: directory(of: $0))) ?? nil) != nil }
        return !isMade && [index, small].contains(where: CacheIndex.isForeign)
    }
}

/// The reason why the disk tier is limited or off.
struct Obstacle: Error, Equatable {
    /// Any state but `on`.
    let state: DiskReport.State
    /// One sentence.
    let reason: String

    /// Whether the files are another process's, or cannot be used at all.
    var isOutOfReach: Bool { state == .locked || state == .off }

    init(_ state: DiskReport.State, _ reason: String) {
        self.state = state
        self.reason = reason
    }

    init(writing directory: String, _ error: SystemError) {
        // Entries can still be read after any failed write.
        state = error.isLackOfSpace ? .full : .readOnly
        reason = "\(directory) cannot be written: \(error.sentence)"
    }
}
