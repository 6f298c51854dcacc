/// Several keys, invalid keys, and damaged files.
@Suite(.timeLimit(.minutes(10))) final class FindingTests: CacheSuite {
    private func keys(_ originals: TestOriginal...) -> [String] { originals.map(\.record.key) }

    @Test func firstExistingKey() throws {
        let cache = try CacheProcess(directory)
        let (own, shared, absent) = (TestOriginal(1, owner: 7), TestOriginal(2), TestOriginal(3))
        try cache.keepAll([own, shared])
        #expect(try cache.find(keys: keys(own, shared)) == own.found)
        #expect(try cache.find(keys: keys(shared, own)) == shared.found)
        #expect(try cache.find(keys: keys(absent, shared, own)) == shared.found)
        #expect(try cache.find(keys: ["", "../x", absent.record.key]) == nil)
        #expect(try cache.find(keys: []) == nil)
        #expect(try cache.query(keys: keys(absent, own, shared)) == own.record)
        #expect(try cache.query(keys: keys(absent)) == nil)
        #expect(try cache.query(keys: []) == nil)
    }

    @Test func rastersByTheFirstExistingKey() throws {
        let cache = try CacheProcess(directory)
        let (first, second, absent) = (TestOriginal(1), TestOriginal(2), TestOriginal(3))
        try cache.keepAll([first, second])
        let raster = second.raster()
        #expect(try cache.keep(raster))
        let form = raster.record.form
        let found = CacheProcess.Found.raster(second.record, raster.record, raster.bytes)
        #expect(try cache.find(keys: keys(absent, second, first), form: form) == found)
        #expect(try cache.find(keys: keys(absent, second), form: form, rasterOnly: true) == found)
        // Not the raster of another image.
        #expect(try cache.find(keys: keys(first, second), form: form) == first.found)
        #expect(try cache.find(keys: keys(first, second), form: form, rasterOnly: true) == nil)
    }

    @Test func nextKeyWhenTheFirstIsDamaged() throws {
        let cache = try CacheProcess(directory)
        let (first, second) = (TestOriginal(1), TestOriginal(2))
        try cache.keepAll([first, second])
        try flipBit(ofByte: 100, at: cache.path(first))
        // The bytes are not read.
        #expect(try cache.query(keys: keys(first, second)) == first.record)
        #expect(try cache.find(keys: keys(first, second)) == second.found)
        #expect(try cache.query(keys: keys(first, second)) == second.record)
        #expect(!CurrentProcess.exists(cache.path(first)))
    }

    /// A change to a file that the cache does not know of.
    enum Change: CaseIterable {
        case removed, danglingLink, pipe, directoryGone, fileAsDirectory

        func apply(to path: String) throws {
            switch self {
            case .removed, .danglingLink, .pipe:
                try FileDescriptor.remove(path)
                if self == .danglingLink { try makeSymbolicLink(at: path, to: "/nowhere/at/all") }
                if self == .pipe, unsafe mkfifo(path, 0o600) != 0 { throw SystemError("mkfifo") }
            case .directoryGone: removeTree(String(path[..<path.lastIndex(of: "/")!]))
            case .fileAsDirectory:
                let folder = String(path[..<path.lastIndex(of: "/")!])
                removeTree(folder)
                try overwrite(folder, with: [1])
            }
        }
    }

    @Test(arguments: Change.allCases) func changedByOthers(_ change: Change) throws {
        let cache = try CacheProcess(directory)
        let (changed, other) = (TestOriginal(1), TestOriginal(2))
        try cache.keepAll([changed, other], rasters: { $0.raster() })
        try change.apply(to: cache.path(changed.raster()))
        #expect(try !cache.has(changed.raster(), of: changed))
        try change.apply(to: cache.path(changed))
        #expect(try cache.find(changed) == nil)
        #expect(try !cache.query(changed))
        try cache.send(.update(changed.record))
        #expect(try cache.has(other.raster(), of: other))
        try cache.waitForState(.on, entries: 2)
        if change != .fileAsDirectory { try cache.store(changed) }
    }

    @Test(.enabled(if: CurrentProcess.uid == 0, "only root can make files that it may read unreadable for another"))
    func unreadable() throws {
        unsafe chmod(folder, 0o755)
        let cache = try CacheProcess(directory, more: ["--uid", "65534", "--gid", "65534"])
        let (changed, other) = (TestOriginal(1), TestOriginal(2))
        try cache.keepAll([changed, other])
        unsafe chmod(cache.path(changed), 0)
        #expect(try cache.find(changed) == nil)
        #expect(try !cache.query(changed))
        #expect(try cache.find(keys: keys(changed, other)) == other.found)
        // The file may become readable again.
        unsafe chmod(cache.path(changed), 0o600)
        #expect(try cache.has(changed))
    }

    @Test func invalidKeys() throws {
        let cache = try CacheProcess(directory)
        let strange = [
            "", "a", ".", "..", "/", "/etc/passwd", "../../x", "a.png", "a?b=c", "%2e%2e", "a b", "ä1", "a\0b", "a\nb",
            String(repeating: "a", count: 129), String(repeating: "a", count: 5000),
        ]
        for key in strange {
            var original = TestOriginal(1)
            original.record.key = key
            #expect(try !cache.keep(original), "\(key.debugDescription)")
            #expect(try cache.find(keys: [key]) == nil)
            #expect(try cache.query(keys: [key]) == nil)
            try cache.send(.update(original.record))
            try cache.send(.touch(keys: [key]))
        }
        for key in ["ab", "A0", String(repeating: "a", count: 128)] {
            var original = TestOriginal(1)
            original.record.key = key
            try cache.store(original)
        }
        #expect(files(below: directory + "/originals").count == 3)
    }
}
