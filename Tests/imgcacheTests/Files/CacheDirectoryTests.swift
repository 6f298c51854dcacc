@testable import imgcache

struct CacheDirectoryTests {
    /// Where the file system has no nameless files, a file has a temporary name until it is complete.
    @Test func temporaryFilesWithNames() throws {
        let temporary = try TemporaryDirectory()
        let directory = CacheDirectory(path: temporary.path)
        let name = try #require(EntryName.original(key: "abc"))
        for content: UInt8 in 1...2 {
            // Also makes the directory.
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
