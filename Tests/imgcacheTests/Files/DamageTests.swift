/// Damaged files are never served, and are removed.
@Suite(.timeLimit(.minutes(10))) final class DamageTests: CacheSuite {
    override var directory: String { folder }

    enum Damage: CaseIterable {
        case firstByte, lastByteOfBody, trailer, trailerChecksum, trailerLength, version, magic
        case truncated, withoutFooter, empty, longer, zeroes, directory, symbolicLink

        func apply(to path: String, bodySize: Int) throws {
            var bytes = try contents(of: path)
            switch self {
            case .firstByte: bytes[0] ^= 1
            case .lastByteOfBody: bytes[bodySize - 1] ^= 0x80
            case .trailer: bytes[bodySize + 20] ^= 1
            case .trailerChecksum: bytes[bytes.count - 80] ^= 1
            case .trailerLength: bytes[bytes.count - 13] ^= 0xFF
            case .version: bytes[bytes.count - 9] ^= 3
            case .magic: bytes[bytes.count - 1] ^= 1
            case .truncated: bytes.removeLast(1)
            case .withoutFooter: bytes.removeSubrange(bodySize...)
            case .empty: bytes = []
            case .longer: bytes.insert(0, at: 0)
            case .zeroes: bytes = [UInt8](repeating: 0, count: bytes.count)
            case .directory:
                try FileDescriptor.remove(path)
                try FileSystem.makeDirectory(path, mode: 0o700)
                return
            case .symbolicLink:
                let target = path + ".moved"
                try FileDescriptor.rename(path, to: target)
                try makeSymbolicLink(at: path, to: target)
                return
            }
            try overwrite(path, with: bytes)
        }
    }

    @Test(arguments: Damage.allCases) func originals(_ damage: Damage) throws {
        let cache = try CacheProcess(directory)
        let (damaged, sound) = (TestOriginal(1), TestOriginal(2))
        try cache.keepAll([damaged, sound])
        let path = cache.path(damaged)
        try damage.apply(to: path, bodySize: damaged.bytes.count)
        #expect(try cache.find(damaged) == nil)
        try cache.waitForState(.on, entries: 1)
        if damage != .directory {
            #expect(!CurrentProcess.exists(path))
            try cache.store(damaged)
        }
        #expect(try cache.has(sound))
    }

    /// A damaged raster costs a decode, not the original.
    @Test(arguments: Damage.allCases) func rasters(_ damage: Damage) throws {
        let cache = try CacheProcess(directory)
        let original = TestOriginal(1)
        let raster = original.raster()
        #expect(try cache.keep(original))
        #expect(try cache.keep(raster))
        try damage.apply(to: cache.path(raster), bodySize: raster.bytes.count)
        #expect(try !cache.has(raster, of: original))
        #expect(try cache.has(original))
        if damage != .directory { #expect(!CurrentProcess.exists(cache.path(raster))) }
        try cache.waitForState(.on, entries: 1)
    }

    /// Flips every byte of a small file; no wrong bytes are ever served.
    @Test func everyByte() throws {
        let cache = try CacheProcess(directory)
        let original = TestOriginal(1, size: 20)
        #expect(try cache.keep(original))
        let path = cache.path(original)
        let sound = try contents(of: path)
        for index in sound.indices {
            var bytes = sound
            bytes[index] ^= UInt8(1 << (index % 8))
            try overwrite(path, with: bytes)
            #expect(try cache.find(original) == nil, "byte \(index)")
        }
        try overwrite(path, with: sound)
        #expect(try cache.has(original))
    }

    @Test func filesUnderEachOthersNames() throws {
        let cache = try CacheProcess(directory)
        let (first, second) = (TestOriginal(1), TestOriginal(2))
        try cache.keepAll([first, second], rasters: { $0.raster() })
        for (one, other) in [
            (cache.path(first), cache.path(second)), (cache.path(first.raster()), cache.path(second.raster())),
        ] {
            let (oneBytes, otherBytes) = (try contents(of: one), try contents(of: other))
            try overwrite(one, with: otherBytes)
            try overwrite(other, with: oneBytes)
        }
        #expect(try cache.find(first) == nil)
        #expect(try cache.find(second) == nil)
        for original in [first, second] {
            #expect(try cache.keep(original))
            #expect(try !cache.has(original.raster(), of: original))
            #expect(!CurrentProcess.exists(cache.path(original.raster())))
        }
        // An original at a raster's path.
        try overwrite(cache.path(first.raster()), with: try contents(of: cache.path(first)))
        #expect(try !cache.has(first.raster(), of: first))
    }

    @Test func foreignFilesAreRemoved() throws {
        let original = TestOriginal(1)
        try makeCache(of: [original])
        let foreign = [
            "originals/\(original.record.key.prefix(2))/foreign", "originals/\(original.record.key.prefix(2))/a b.png",
            ".tmp-1", ".tmp-99999",
        ]
        for name in foreign { try overwrite("\(directory)/\(name)", with: [1, 2, 3]) }
        let second = try CacheProcess(directory)
        try second.waitForState(.on, entries: 1)
        #expect(try second.has(original))
        try eventually { foreign.allSatisfy { !CurrentProcess.exists("\(directory)/\($0)") } }
    }

    enum IndexDamage: CaseIterable {
        case removed, garbage, empty, half, zeroPages, otherVersion, otherProgram, directory, flippedBytes
    }

    @Test(arguments: IndexDamage.allCases) func index(_ damage: IndexDamage) throws {
        let originals = (0..<200).map { TestOriginal($0, size: 100) }
        try makeCache(of: originals, rasters: { $0.raster(side: 3) })
        let index = directory + "/index.sqlite"
        var bytes = try contents(of: index)
        #expect(!CurrentProcess.exists(index + "-wal"), "an orderly end leaves one file")
        switch damage {
        case .removed, .directory: break
        case .garbage: bytes = (0..<50_000).map { UInt8(truncatingIfNeeded: $0 * 7) }
        case .empty: bytes = []
        case .half: bytes.removeLast(bytes.count / 2)
        case .zeroPages: for offset in 4096..<bytes.count { bytes[offset] = 0 }
        case .otherVersion: bytes[63] = 9
        case .otherProgram: bytes[63] = 0
        case .flippedBytes: for offset in stride(from: 5000, to: bytes.count, by: 97) { bytes[offset] ^= 0x55 }
        }
        try FileDescriptor.remove(index)
        if damage == .directory { try FileSystem.makeDirectory(index, mode: 0o700) }
        if ![.removed, .directory].contains(damage) { try overwrite(index, with: bytes) }

        let second = try CacheProcess(directory)
        try second.findAll(originals, rasters: { $0.raster(side: 3) })
        // With a directory at the index's path, the index is in memory.
        try second.waitForState { $0.entries == 400 && ($0.state == .on) == (damage != .directory) }
        let url = originals[7].record.url
        #expect(try second.forget(url, owner: 1) == [originals[7].record.key])
        #expect(try !second.has(originals[7]))
        #expect(try second.keep(originals[7]) == (damage != .directory))
    }

    /// Kills the process during writes, repeatedly.
    @Test func killedWhileWriting() throws {
        let originals = (0..<60).map { TestOriginal($0, size: 1000 + $0 * 4000) }
        for round in 0..<20 {
            let cache = try CacheProcess(directory)
            for original in originals.shuffled().prefix(30) {
                try cache.send(.keepOriginal(job: 1, original.record), [try sealed(original.bytes)])
            }
            // At some point between the first and the last write.
            try cache.endedKeeps(round)
            cache.kill()
            let next = try CacheProcess(directory)
            var found = 0
            for original in originals where try next.has(original) { found += 1 }
            #expect(found >= round)
            try next.waitForState(.on, entries: found)
            try eventually { files(below: directory).allSatisfy { !$0.contains(".tmp") } }
            next.kill()
        }
    }
}
