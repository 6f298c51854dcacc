/// The possible contents of the databases after a power failure: all changes of a file up to its last synchronisation,
/// and of the later ones any part.
@Suite(.serialized, .timeLimit(.minutes(10))) final class SmallPowerLossTests: CacheSuite {
    private static let originals = (0..<70).map { TestOriginal($0, size: 400 + 631 * ($0 * 7 % 40)) }
    /// Other bytes for the keys of every fifth.
    private static let replacements = stride(from: 0, to: 60, by: 5).map {
        TestOriginal($0, size: 3000, content: 1000 + $0).named(as: originals[$0])
    }
    private static let removed = 33
    private static var rasters: [TestRaster] { (originals + replacements).map { $0.raster() } }
    private static let possible = Possible(originals + replacements, rasters: rasters)

    /// A database's files, by name.
    private typealias Image = [String: [UInt8]]

    private struct History {
        var changes: [FileChange] = []
        /// The keys that were reported as kept, with the length of the log at that time.
        var kept: [(key: String, end: Int)] = []
    }

    /// A process whose log is moved to the database every 64 KiB.
    private func start(_ directory: String, _ environment: [String] = []) throws -> CacheProcess {
        try CacheProcess(
            directory, diskLimit: 2 << 20, rasterLimit: 2 << 20, smallEntry: 1 << 16, environment: environment)
    }

    private func history() throws -> History {
        let faults = try Faults(directory, logsChanges: true)
        let cache = try start(directory, faults.environment)
        var history = History()
        for (number, original) in Self.originals.enumerated() {
            #expect(try cache.keep(original))
            if number != Self.removed { history.kept.append((original.record.key, faults.logLength)) }
            #expect(try cache.keep(original.raster()))
            if number % 5 == 4, let other = Self.replacements.first(where: { $0.record.key == Self.key(number - 4) }) {
                try cache.keepAll([other], rasters: { $0.raster() })
            }
            if number == 50 {
                try cache.update(Self.originals[49], etag: "another")
                _ = try cache.forget(Self.originals[Self.removed].record.url, owner: nil)
            }
            if number % 10 == 0 { try cache.send(.touch(keys: Self.possible.keys)) }
        }
        try cache.close()
        history.changes = try faults.changes().filter { change in
            ["small.", "index."].contains { change.name.hasPrefix($0) } || change.name.isEmpty
        }
        return history
    }

    private static func key(_ number: Int) -> String { originals[number].record.key }

    /// What is left of a file after these changes.
    ///
    /// - Parameter share: the share of blocks that were written of changes that were not synchronised, in percent.
    private func remains(
        of name: String, after changes: ArraySlice<FileChange>, share: Int, _ random: inout SplitMix64
    ) -> [UInt8]? {
        func lastSync(of name: String) -> Int {
            changes.lastIndex { if case .sync = $0.action { $0.name == name } else { false } } ?? -1
        }
        let (synced, directorySynced) = (lastSync(of: name), lastSync(of: ""))
        var bytes: [UInt8]?
        for (number, change) in changes.enumerated() where change.name == name {
            func happens(before synced: Int = synced) -> Bool {
                number < synced || Int.random(in: 0..<100, using: &random) < share
            }
            switch change.action {
            case .write(let written, let start):
                // By blocks, as disks write them.
                var from = start
                while from < start + written.count {
                    let to = min((from / 4096 + 1) * 4096, start + written.count)
                    if happens() {
                        var present = bytes ?? []
                        if present.count < to { present += [UInt8](repeating: 0, count: to - present.count) }
                        present.replaceSubrange(from..<to, with: written[from - start..<to - start])
                        bytes = present
                    }
                    from = to
                }
            case .truncate(let size):
                if happens() { bytes = Array((bytes ?? []).prefix(size)) }
            case .remove: if happens(before: directorySynced) { bytes = nil }
            case .sync: break
            }
        }
        return bytes
    }

    /// The keys that are certain to survive a power failure after `count` changes: those kept before a synchronisation
    /// of the log.
    private func durable(_ history: History, _ count: Int) -> [String] {
        let synced = history.changes.prefix(count).last {
            if case .sync = $0.action { $0.name == "small.sqlite-wal" } else { false }
        }
        return history.kept.filter { $0.end <= synced?.end ?? 0 }.map(\.key)
    }

    private static let history = Result { try SmallPowerLossTests().history() }

    @Test(arguments: 1...20) func anyMoment(_ seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let history = try Self.history.get()
        let count = Int.random(in: 20...history.changes.count, using: &random)
        let share = [0, 20, 50, 90, 100][Int(seed) % 5]
        for folder in ["", "/originals", "/rasters"] { try FileSystem.makeDirectory(directory + folder, mode: 0o700) }
        for name in Set(history.changes.map(\.name)).sorted() where !name.isEmpty {
            guard let bytes = remains(of: name, after: history.changes.prefix(count), share: share, &random) else {
                continue
            }
            try overwrite(directory + "/" + name, with: bytes)
        }
        let durable = durable(history, count)
        try expectSame(Self.possible, startedBy: { try start(directory) }) { cache, number throws in
            for key in durable { #expect(try cache.find(keys: [key]) != nil, "\(key) is lost") }
            // Entries can be stored.
            #expect(try cache.keep(TestOriginal(1001 + number)) && cache.has(TestOriginal(1001 + number)))
        }
    }

    /// The simulation is not empty: the log was synchronised between two saves, and most entries are certain in the
    /// end.
    @Test func databaseIsSynchronised() throws {
        let history = try Self.history.get()
        let all = durable(history, history.changes.count)
        #expect(all.count == Self.originals.count - 1)
        let half = durable(history, history.changes.count / 2)
        #expect(half.count > 5 && half.count < all.count)
    }
}
