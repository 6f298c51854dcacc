@testable import imgcache

/// A change of a file in the directory of `Faults`.
struct FileChange {
    enum Action {
        case write([UInt8], at: Int)
        case truncate(to: Int)
        case sync
        case remove
    }

    /// The file's path in the directory; empty for the directory itself, whose synchronisation makes removals certain.
    let name: String
    let action: Action
    /// The length of the log up to its end.
    let end: Int
}

/// Makes calls of a process's file system fail; see `Tests/FaultInjection`.
final class Faults {
    enum Kind: Equatable {
        case error(Int32)
        /// The process is killed before the call.
        case kill
        /// The process is killed in the middle of the call if that writes.
        case tear

        fileprivate var number: Int64 {
            switch self {
            case .error(let code): Int64(code)
            case .kill: -1
            case .tear: -2
            }
        }
    }

    private static let temporary = try? TemporaryDirectory()
    private static let library: String? = {
        guard let temporary else { return nil }
        let path = temporary.path + "/faults.so"
        return (try? Compiler.makeLibrary(path, of: "Tests/FaultInjection/FaultInjection.c")).map { path }
    }()

    private let file: FileDescriptor
    private let folder: TemporaryDirectory
    /// The environment that injects the faults into a process.
    let environment: [String]

    private enum Field: Int {
        case calls, first, last, stride, error, failed, seconds
    }

    /// The log of changes; empty without one.
    private let log: String

    /// Faults of calls that are about `directory`. With `logsChanges`, changes of its files are logged.
    init(_ directory: String, logsChanges: Bool = false) throws {
        let library = try #require(Self.library, "the library could not be compiled")
        folder = try TemporaryDirectory()
        let path = folder.path + "/control"
        file = try FileDescriptor.create(at: path, mode: 0o666)
        try file.truncate(to: 4096)
        log = logsChanges ? folder.path + "/changes" : ""
        if logsChanges { _ = try FileDescriptor.create(at: log, mode: 0o666) }
        environment =
            ["LD_PRELOAD=\(library)", "FAULT_CONTROL=\(path)", "FAULT_DIRECTORY=\(directory)"]
            + (logsChanges ? ["FAULT_LOG=\(log)"] : [])
    }

    var logLength: Int { ((try? FileSystem.status(of: log)) ?? nil)?.size ?? 0 }

    func changes() throws -> [FileChange] {
        let bytes = try contents(of: log)
        var changes: [FileChange] = []
        var offset = 0
        func integer(_ field: Int) -> Int {
            (0..<8).reduce(0) { $0 | Int(bytes[offset + field * 8 + $1]) << (8 * $1) }
        }
        while offset < bytes.count {
            let (kind, at, count, nameLength) = (integer(0), integer(1), integer(2), integer(3))
            let nameEnd = offset + 32 + nameLength
            let name = String(decoding: bytes[offset + 32..<nameEnd], as: UTF8.self)
            let written = Array(bytes[nameEnd..<nameEnd + count])
            offset = nameEnd + count
            let action: FileChange.Action? =
                switch kind {
                case 1: .write(written, at: at)
                case 2: .truncate(to: at)
                case 3: .sync
                case 4: .remove
                default: nil
                }
            changes.append(FileChange(name: name, action: try #require(action), end: offset))
        }
        return changes
    }

    private subscript(_ field: Field) -> Int64 {
        get {
            var value: Int64 = 0
            _ = unsafe pread(file.raw, &value, 8, off_t(field.rawValue * 8))
            return value
        }
        set {
            var value = newValue
            _ = unsafe pwrite(file.raw, &value, 8, off_t(field.rawValue * 8))
        }
    }

    var calls: Int { Int(self[.calls]) }
    var failed: Int { Int(self[.failed]) }

    /// Restarts the count, and lets calls fail from number `first` to number `last`, or every `stride`th of them.
    func plan(_ kind: Kind, from first: Int, to last: Int = .max, stride: Int = 1) {
        for field in [Field.first, .calls, .failed] { self[field] = 0 }
        (self[.last], self[.stride], self[.error]) = (Int64(last), Int64(stride), kind.number)
        self[.first] = Int64(first)
    }

    /// Lets no more calls fail, and restarts the count.
    func stop() { plan(.error(EIO), from: 0) }

    func moveClock(bySeconds seconds: Int) { self[.seconds] = Int64(seconds) }
}

/// The possible contents of a directory: for each key all bytes that were stored under it, and all their rasters.
struct Possible {
    private var originals: [String: [TestOriginal]] = [:]
    private var rasters: [TestRaster] = []

    init(_ originals: [TestOriginal], rasters: [TestRaster] = []) {
        for original in originals { self.originals[original.record.key, default: []].append(original) }
        self.rasters = rasters
    }

    var keys: [String] { originals.keys.sorted() }
    var forms: [String?] { [nil] + Set(rasters.map(\.record.form)).sorted() }

    /// Whether a result is one of those, in every byte.
    func allows(_ found: CacheProcess.Found, key: String) -> Bool {
        switch found {
        case .original(let record, let bytes): isRight(record, key: key) { $0.bytes == bytes }
        case .raster(let record, let raster, let bytes):
            isRight(record, key: key) { _ in true } && raster.original == record.digest
                && rasters.contains { $0.record == raster && $0.bytes == bytes }
        }
    }

    private func isRight(_ record: OriginalRecord, key: String, _ isRight: (TestOriginal) -> Bool) -> Bool {
        record.key == key
            && (originals[key] ?? []).contains { original in
                var expected = original.record
                // The last response may have been lost.
                expected.response = record.response
                return expected == record && isRight(original)
            }
    }

    /// Looks up all keys in all forms. Returns the number of originals found.
    @discardableResult
    func findAll(in cache: CacheProcess) throws -> Int {
        var count = 0
        for key in keys {
            for form in forms {
                guard let found = try cache.find(keys: [key], form: form) else { continue }
                count += form == nil ? 1 : 0
                #expect(allows(found, key: key), "\(key) is wrong")
            }
        }
        return count
    }
}

/// Starts a process without faults and checks that every result is right, that nothing is left behind, and that the
/// index is right in the end.
@discardableResult
func expectSound(_ directory: String, _ possible: Possible) throws -> Int {
    let cache = try CacheProcess(directory)
    let count = try possible.findAll(in: cache)
    // All files have been compared with the index, and damaged entries removed.
    try cache.waitForKnown()
    try cache.waitForState { state in state.state == .on && state.entries == entries(below: directory).count }
    #expect(try possible.findAll(in: cache) == count)
    try cache.close()
    #expect(files(below: directory).filter { $0.contains(".tmp") } == [])
    try expectIndexAgrees(directory)
    return count
}

/// Checks that two processes, one after the other, find the same, that every result is right, and what `check` checks
/// of each.
func expectSame(
    _ possible: Possible, startedBy start: () throws -> CacheProcess, _ check: (CacheProcess, Int) throws -> Void
) throws {
    var counts: [Int] = []
    for number in 0...1 {
        let cache = try start()
        try cache.waitForState(.on)
        try cache.waitForKnown()
        counts.append(try possible.findAll(in: cache))
        try check(cache, number)
        try cache.close()
    }
    #expect(counts[0] == counts[1])
}

/// A process whose calls fail, and its successors: a directory whose status cannot be read is left to the next process.
final class FailingCache {
    private let faults: Faults
    private(set) var process: CacheProcess
    private var failedBefore = 0
    var failed: Int { failedBefore + faults.failed }

    init(_ faults: Faults, _ process: CacheProcess) { (self.faults, self.process) = (faults, process) }

    /// Uses the process; nil when it exits meanwhile.
    func attempt<Value>(_ body: (CacheProcess) throws -> Value) throws -> Value? {
        do {
            return try body(process)
        } catch is CacheProcess.Ended {
            failedBefore += faults.failed
            faults.stop()
            process = try process.successor()
            return nil
        }
    }
}

/// The entries' files by their names, with their sizes.
func entries(below directory: String) -> [String: Int] {
    var sizes: [String: Int] = [:]
    for kind in EntryKind.allCases {
        for name in files(below: "\(directory)/\(kind)") {
            sizes["\(kind)/\(name)"] = (try? FileSystem.status(of: "\(directory)/\(kind)/\(name)"))?.size
        }
    }
    return sizes
}

/// Checks that the index has a row for each file and no other. No process may use the index meanwhile.
func expectIndexAgrees(_ directory: String) throws {
    var rows: [String: Int] = [:]
    do {
        let index = try CacheIndex(path: directory + "/index.sqlite")
        for kind in EntryKind.allCases {
            for fileName in try index.fileNames(kind, prefix: "") {
                let name = try #require(EntryName(kind: kind, fileName: fileName))
                rows["\(kind)/\(name.prefix)/\(fileName)"] = try index.size(of: name)
            }
        }
    }
    #expect(rows == entries(below: directory))
}
