import IPCProtocol
import LinuxSystem
import SharedCache
import Testing
import WorkerRuntime

@testable import imgcache

/// What stands at the end of a file.
@Suite struct FormatTests {
    @Test func footer() throws {
        let trailer = Array("{}".utf8)
        let footer = try #require(DiskFileFooter(of: trailer))
        let bytes = footer.encoded
        #expect(bytes.count == DiskFileFooter.length)
        #expect(DiskFileFooter(decoding: bytes, fileSize: 82) == footer)
        #expect(footer.describes(trailer))
        #expect(!footer.describes("[]".utf8))
        // The trailer does not fit before it.
        #expect(DiskFileFooter(decoding: bytes, fileSize: 81) == nil)
        #expect(DiskFileFooter(decoding: bytes.dropLast(), fileSize: 1000) == nil)
        var old = bytes
        old[71] = 1
        #expect(DiskFileFooter(decoding: old, fileSize: 82) == nil)
        #expect(DiskFileFooter.isOfAnotherVersion(old))
        #expect(!DiskFileFooter.isOfAnotherVersion(bytes))
        old[79] = 0
        #expect(!DiskFileFooter.isOfAnotherVersion(old))
        let long = [UInt8](repeating: 32, count: DiskFileFooter.maximumTrailerLength + 1)
        #expect(DiskFileFooter(of: long) == nil)
        #expect(DiskFileFooter(of: Array(long.dropLast())) != nil)
    }

    @Test func trailers() throws {
        let original = TestOriginal(1, owner: 1000)
        let raster = original.raster().record
        let digest = original.record.digest
        for content in [EntryTrailer.Content.original(original.record), .raster(raster, digest: digest)] {
            let trailer = EntryTrailer(content, created: 1_700_000_000_000)
            let encoded = trailer.encoded
            #expect(EntryTrailer(decoding: encoded[...]) == trailer)
            for length in 0..<encoded.count { #expect(EntryTrailer(decoding: encoded[..<length]) == nil) }
        }
        #expect(EntryTrailer(decoding: Array(#"{"created":1}"#.utf8)[...]) == nil)
        let text = String(decoding: EntryTrailer(.original(original.record), created: 1).encoded, as: UTF8.self)
        let withoutResponse = text.replacing("\"response\"", with: "\"other\"")
        #expect(text != withoutResponse && EntryTrailer(decoding: Array(withoutResponse.utf8)[...]) == nil)
    }

    @Test(arguments: ["", "a", "..", "../x", "a/b", "a.b", "é1", "a b", "a\0b"])
    func wordsThatMakeNoPath(_ word: String) {
        #expect(EntryName.original(key: word) == nil)
    }

    @Test func names() throws {
        let digest = TestOriginal(1).record.digest
        let name = EntryName.raster(original: digest, form: "full")
        #expect(name == EntryName.raster(original: digest, form: "full"))
        #expect(name != EntryName.raster(original: digest, form: "full2"))
        let directory = CacheDirectory(path: "/c")
        #expect(directory.file(try #require(EntryName.original(key: "abCD12"))) == "/c/originals/ab/abCD12")
    }
}

@Suite struct CacheDirectoryTests {
    /// Where files cannot be without a name, they have one until they are complete.
    @Test func temporaryFilesWithNames() throws {
        let temporary = try TemporaryDirectory()
        let directory = CacheDirectory(path: temporary.path)
        let name = try #require(EntryName.original(key: "abc"))
        for content: UInt8 in 1...2 {
            // What makes the directory, too.
            try directory.createTemporary(for: name).discard()
            let path = temporary.path + "/originals/ab/.tmp-1"
            let file = CacheDirectory.TemporaryFile(
                descriptor: try FileSystem.createNew(path, mode: 0o600), path: path)
            try overwrite(path, with: [content])
            try directory.publish(file, as: name)
            file.discard()
            #expect(try contents(of: directory.file(name)) == [content])
            #expect(files(below: temporary.path) == ["originals/ab/abc"])
        }
        try overwrite(temporary.path + "/.tmp-2", with: [])
        try directory.removeTemporaries()
        #expect(files(below: temporary.path) == ["originals/ab/abc"])
    }

    @Test(arguments: [
        (["photo.jpg"], false), ([".profile"], false), (["CACHEDIR.TAG", "debug"], false), ([], true),
        (["lost+found"], true), (["CACHEDIR.TAG", "lock", "originals"], true), (["index.sqlite", "README"], true),
        (["originals", "rasters", "README"], true),
    ])
    func whoseDirectory(_ names: [String], _ isOurs: Bool) throws {
        let temporary = try TemporaryDirectory()
        for name in names { try FileSystem.makeDirectory("\(temporary.path)/\(name)", mode: 0o700) }
        let obstacle = CacheDirectory(path: temporary.path).open(holding: nil, room: 1).obstacle
        #expect((obstacle?.state != .off) == isOurs)
    }
}

@Suite struct IndexTests {
    private func row(_ word: String, size: Int = 10, used: Int, digest: String = "d") throws -> CacheIndex.Row {
        CacheIndex.Row(
            name: try #require(EntryName(kind: .originals, word: word)), size: size, created: 1, used: used,
            digest: digest, url: "u", owner: word == "cc" ? 7 : nil)
    }

    @Test func rows() throws {
        let index = try CacheIndex(path: ":memory:")
        for (word, used) in [("aa", 3), ("bb", 1), ("cc", 2)] { try index.insert(try row(word, used: used)) }
        #expect(index.totals[.originals] == CacheIndex.Total(entries: 3, bytes: 30))
        #expect(try index.oldest(.originals)?.name.word == "bb")
        #expect(try index.touch(try row("bb", used: 0).name, at: 9))
        #expect(try !index.touch(try row("dd", used: 0).name, at: 9))
        #expect(try index.oldest(.originals)?.name.word == "cc")
        try index.insert(try row("cc", size: 25, used: 20))
        #expect(index.totals[.originals] == CacheIndex.Total(entries: 3, bytes: 45))
        try index.commit()
        #expect(try index.originals(url: "u", owner: 7).map(\.key).sorted() == ["aa", "bb", "cc"])
        #expect(try index.originals(url: "u", owner: nil).map(\.key).sorted() == ["aa", "bb", "cc"])
        #expect(try index.latestUse() == 20)
        #expect(try index.originals(url: "u", owner: 8).map(\.key).sorted() == ["aa", "bb"])
        try index.remove(try row("aa", used: 0).name)
        try index.remove(try row("aa", used: 0).name)
        #expect(index.totals[.originals] == CacheIndex.Total(entries: 2, bytes: 35))
        try index.limitLastUse(to: 15)
        #expect(try index.lastUse(of: try row("cc", used: 0).name) == 15)
        #expect(try index.words(.originals, prefix: "cc") == ["cc"])
        #expect(try index.firstWord(.originals, from: "bc") == "cc")
    }
}

@Suite struct ForgottenURLsTests {
    @Test func untilAllFilesWereSeen() {
        var forgotten = ForgottenURLs()
        let url = "https://example.org/a"
        func entry(owner: UInt32?, created: Int) -> EntryTrailer {
            EntryTrailer(.original(TestOriginal(1, url: url, owner: owner).record), created: created)
        }
        forgotten.insert(url: url, owner: 5, at: 100, isLasting: false)
        #expect(forgotten.contains(entry(owner: 5, created: 100)))
        #expect(forgotten.contains(entry(owner: nil, created: 90)))
        #expect(!forgotten.contains(entry(owner: 6, created: 90)))
        #expect(!forgotten.contains(entry(owner: 5, created: forgotten.timeAfter(100))))
        forgotten.insert(url: url, owner: 6, at: 100, isLasting: true)
        forgotten.removeCarriedOut()
        #expect(!forgotten.contains(entry(owner: 5, created: 90)))
        #expect(forgotten.contains(entry(owner: 6, created: 90)))
        #expect(forgotten.takeLasting().map(\.owner) == [6])
        #expect(!forgotten.contains(entry(owner: 6, created: 90)))
        forgotten.insert(url: url, owner: nil, at: 100, isLasting: false)
        #expect(forgotten.contains(entry(owner: 7, created: 100)))
        #expect(!forgotten.contains(entry(owner: 7, created: 101)))
    }
}

@Suite struct CacheProgramTests {
    private let required = ["--directory", "/c", "--disk-limit", "10", "--raster-limit", "20"]

    private func read(_ arguments: [String]) throws -> (WorkerOptions, Store.Options) {
        var program = CacheProgram()
        return (try WorkerOptions(arguments, for: &program), program.store)
    }

    @Test func validOptions() throws {
        let (options, store) = try read(required)
        #expect(store.maxAge == 7 * 86_400_000)
        #expect(store.retryInterval == 30_000)
        #expect(options.user == nil)
        let more = required + ["--max-age", "-1", "--parent", "12", "--uid", "3", "--gid", "4", "--log-level", "debug"]
        let (allOptions, allStore) = try read(more)
        #expect(allStore.maxAge == nil)
        #expect(allOptions.user == WorkerOptions.User(uid: 3, gid: 4))
        #expect(allOptions.logLevel == .debug)
        #expect(try read(required + ["--max-age", "-5"]).1.maxAge == nil)
        let directories = ["--extra-directory", "/e", "--extra-directory", "/f"]
        #expect(try read(required + directories).1.extraDirectories == ["/e", "/f"])
        #expect(try read(required + ["--max-age", "0"]).1.maxAge == 0)
    }

    @Test(arguments: [
        ["--uid", "3"], ["--parent"], ["--parent", "0"], ["--gid", "x"], ["12"], ["--help"], ["--max-age", "x"],
        ["--log-level", "loud"], ["--disk-limit", "-1"], ["--directory", ""], ["--extra-directory", ""],
        ["--extra-directory"],
    ])
    func invalidOptions(_ arguments: [String]) {
        #expect(throws: UsageError.self) { try read(required + arguments) }
        #expect(throws: UsageError.self) { try read(Array(required.dropLast(2))) }
    }
}
