@testable import imgcache

struct IndexTests {
    private func row(_ fileName: String, size: Int = 10, used: Int, digest: String = "d") throws -> CacheIndex.Row {
        CacheIndex.Row(
            name: try #require(EntryName(kind: .originals, fileName: fileName)), size: size, created: 1, used: used,
            digest: digest, url: "u", owner: fileName == "cc" ? 7 : nil)
    }

    /// A hostile database makes this process hold no value longer than any of its own.
    @Test func valuesAreBounded() throws {
        let connection = try SQLiteConnection(path: ":memory:")
        #expect(try connection.integer("SELECT length(zeroblob(1000000))") == 1_000_000)
        let error = #expect(throws: SQLiteError.self) {
            try connection.integer("SELECT length(zeroblob(10000000) || '')")
        }
        #expect(error?.isDamage == true)
    }

    @Test func rows() throws {
        let index = try CacheIndex(path: ":memory:")
        for (fileName, used) in [("aa", 3), ("bb", 1), ("cc", 2)] { try index.insert(try row(fileName, used: used)) }
        #expect(index.totals[.originals] == CacheIndex.Total(entries: 3, bytes: 3 * 4096))
        #expect(try index.oldest(.originals)?.name.fileName == "bb")
        #expect(try index.touch(try row("bb", used: 0).name, at: 9))
        #expect(try !index.touch(try row("dd", used: 0).name, at: 9))
        #expect(try index.oldest(.originals)?.name.fileName == "cc")
        try index.insert(try row("cc", size: 4097, used: 20))
        #expect(index.totals[.originals] == CacheIndex.Total(entries: 3, bytes: 4 * 4096))
        try index.commit()
        #expect(try index.originals(url: "u", owner: 7).map(\.key).sorted() == ["aa", "bb", "cc"])
        #expect(try index.originals(url: "u", owner: nil).map(\.key).sorted() == ["aa", "bb", "cc"])
        #expect(try index.latestUse() == 20)
        #expect(try index.originals(url: "u", owner: 8).map(\.key).sorted() == ["aa", "bb"])
        try index.remove(try row("aa", used: 0).name)
        try index.remove(try row("aa", used: 0).name)
        #expect(index.totals[.originals] == CacheIndex.Total(entries: 2, bytes: 3 * 4096))
        try index.limitLastUse(to: 15)
        #expect(try index.lastUse(of: try row("cc", used: 0).name) == 15)
        #expect(try index.fileNames(.originals, prefix: "cc") == ["cc"])
        #expect(try index.firstFileName(.originals, from: "bc") == "cc")
    }
}
