/// The possible contents of a disk after a power failure without synchronisation: of each file the last version, an
/// earlier one, zeros of the right length, or nothing; and an index from another moment than the files.
@Suite(.serialized, .timeLimit(.minutes(10))) final class PowerLossTests: CacheSuite {
    private static let originals = (0..<12).map { TestOriginal($0, size: 1000 + 4000 * $0) }
    private static let replacements = originals.map {
        TestOriginal(100 + $0.record.bytes, size: 3000).named(as: $0)
    }
    private static var rasters: [TestRaster] { (originals + replacements).map { $0.raster() } }
    private static let possible = Possible(originals + replacements, rasters: rasters)

    /// All files of a directory, by their paths.
    private typealias Image = [String: [UInt8]]

    private func write(_ image: Image, to directory: String) throws {
        for (name, bytes) in image {
            let path = directory + "/" + name
            for (offset, byte) in path.utf8.enumerated().dropFirst() where byte == UInt8(ascii: "/") {
                try FileSystem.makeDirectory(String(decoding: path.utf8.prefix(offset), as: UTF8.self), mode: 0o700)
            }
            try overwrite(path, with: bytes)
        }
    }

    /// The directory at several moments, some of them in the middle of a transaction.
    private func history() throws -> [Image] {
        let cache = try CacheProcess(directory)
        var moments = [try allContents(below: directory)]
        for (number, original) in Self.originals.enumerated() {
            try cache.keepAll([original], rasters: { $0.raster() })
            if number % 3 == 2 { moments.append(try allContents(below: directory)) }
        }
        for other in Self.replacements.prefix(6) {
            try cache.keepAll([other], rasters: { $0.raster() })
            try cache.update(Self.originals[8], etag: other.record.digest)
        }
        moments.append(try allContents(below: directory))
        _ = try cache.forget(Self.originals[10].record.url, owner: nil)
        moments.append(try allContents(below: directory))
        try cache.close()
        moments.append(try allContents(below: directory))
        return moments
    }

    /// The remains of a file that had these versions.
    private func remains(of versions: [[UInt8]], _ random: inout SplitMix64) -> [UInt8]? {
        guard let last = versions.last else { return nil }
        switch Int.random(in: 0..<12, using: &random) {
        case 0: return nil
        case 1: return []
        case 2: return [UInt8](repeating: 0, count: last.count)
        // Some blocks were not written.
        case 3, 4:
            var bytes = last
            for start in stride(from: 0, to: bytes.count, by: 4096) where Bool.random(using: &random) {
                for offset in start..<min(start + 4096, bytes.count) { bytes[offset] = 0 }
            }
            return bytes
        case 5: return Array(last.prefix(Int.random(in: 0...last.count, using: &random)))
        // The present length with the earlier bytes.
        case 6:
            let earlier = versions.randomElement(using: &random) ?? []
            return Array((earlier + [UInt8](repeating: 0, count: last.count)).prefix(last.count))
        default: return versions.randomElement(using: &random)
        }
    }

    @Test(arguments: 1...16) func anything(_ seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let moments = try Self.moments.get()
        let now = Int.random(in: 1..<moments.count, using: &random)
        var left: Image = [:]
        let names = Set(moments[...now].flatMap(\.keys)).sorted()
        for name in names {
            let versions = moments[...now].compactMap { $0[name] }
            // The index is written often; it is damaged in a third of all cases.
            let isIndex = name.hasPrefix("index")
            if isIndex, seed % 3 != 0 {
                left[name] = moments[Int.random(in: 0...now, using: &random)][name]
            } else if seed % 4 == 0, !isIndex {
                left[name] = versions.last
            } else {
                left[name] = remains(of: versions, &random)
            }
        }
        try write(left, to: directory)
        try expectSound(directory, Self.possible)
    }

    /// The index of each moment, with files of earlier and later moments.
    @Test func indexOfAnotherMoment() throws {
        let moments = try Self.moments.get()
        for (number, index) in moments.enumerated() {
            for (other, files) in moments.enumerated() where (number + other) % 3 == 0 {
                var left = files.filter { !$0.key.hasPrefix("index") }
                for (name, bytes) in index where name.hasPrefix("index") { left[name] = bytes }
                let directory = freshDirectory()
                try write(left, to: directory)
                let found = try expectSound(directory, Self.possible)
                #expect(found == files.keys.count { $0.hasPrefix("originals/") }, "whatever the index says")
            }
        }
    }

    private static let moments = Result { try PowerLossTests().history() }
}
