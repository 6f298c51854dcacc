import Synchronization

/// Local files: identity from the kernel, never stale.
@Suite(.blocking, .timeLimit(.minutes(10))) struct LocalFileTests {
    private let directory: TemporaryDirectory
    private let setting: Setting
    private let client: RawClient

    init() throws {
        directory = try TemporaryDirectory()
        (setting, client) = try Setting(["--max-file", "1M"], routes: ["/a": png(tile(1))]).withClient()
    }

    private func ask(
        _ file: FileDescriptor, _ members: String = "", type: String = "get", by other: RawClient? = nil
    ) throws -> RawClient.Incoming {
        try (other ?? client).ask(type, members, of: file)
    }

    private func write(_ picture: TestPicture, to name: String = "image.png") throws -> String {
        try directory.write(picture.png, to: name)
    }

    /// Waits until the last change of a file is long enough ago for it to be kept.
    private func settled(_ path: String) throws -> FileDescriptor {
        usleep(30_000)
        return try FileDescriptor.open(readingAt: path)
    }

    @Test func usersShareAFileThroughItsDescriptor() throws {
        let file = try settled(try write(tile(3)))
        let first = try ask(file)
        #expect(try client.picture(first) == tile(3))
        let reply = try first.image()
        #expect(reply.source == .file && reply.url == nil && reply.etag == nil && first.fields["url"] == nil)
        let other = try setting.client(as: 20_021)
        let second = try ask(file, by: other)
        #expect(try (second.image().source, other.picture(second)) == (.memory, tile(3)))
    }

    private func sealed(_ bytes: [UInt8]) throws -> FileDescriptor { try memoryFile(bytes, isSealed: true) }

    @Test func `sealed bytes are known by their digest, for all users`() throws {
        let first = try client.ask("get", #""storage":"both""#, of: sealed(tile(3).png))
        #expect(try client.picture(first) == tile(3))
        let reply = try first.image()
        #expect(reply.source == .file && reply.url == nil)
        let other = try setting.client(as: 20_021)
        let second = try ask(sealed(tile(3).png), by: other)
        #expect(try (second.image().source, other.picture(second)) == (.memory, tile(3)))
        // Of other bytes nothing is known.
        #expect(try ask(sealed(tile(4).png), #""cache":"only-if-cached""#).error?.code == .notCached)
        let query = try ask(sealed(tile(3).png), type: "query")
        guard case .queried(_, let answer) = query.reply else { throw TestFailure("no answer to a query") }
        #expect(answer.memory)
        guard case .removed(_, let count) = try ask(sealed(tile(3).png), type: "remove").reply else {
            throw TestFailure("nothing was removed")
        }
        #expect(count == 1)
        #expect(try ask(sealed(tile(3).png)).image().source == .file)
        #expect(try ask(sealed(tile(3).png + [UInt8](repeating: 0, count: 1 << 20))).error?.code == .tooLarge)
        #expect(try ask(sealed([])).error?.code == .emptyImage)
    }

    /// A FUSE process can give its file the identity of another user's file.
    @Test(.enabled("a file system can be mounted") { SilentFileSystem.isPossible })
    func `users do not share files of a file system in user space`() throws {
        let fileSystem = try SilentFileSystem(contents: tile(3).png, answering: .max)
        defer { fileSystem.end() }
        let file = try fileSystem.open()
        #expect(try client.picture(ask(file)) == tile(3))
        #expect(try ask(file).image().source == .memory)
        let other = try setting.client(as: 20_021)
        #expect(try ask(file, by: other).image().source == .file)
        #expect(try ask(file, by: other).image().source == .memory)
        #expect(try ask(file).image().source == .memory)
    }

    /// Each request gets the contents as of its time, although most changes leave the size as it is, and some the
    /// times.
    @Test(arguments: ["replace", "rewrite"]) func changedContentsAreNeverServed(way: String) throws {
        let path = directory.file("image.png")
        for round in 0..<60 {
            let bytes = tile(round % 7, side: 8).png
            if way == "replace" {
                try directory.write(bytes, to: "image.png.new")
                try FileDescriptor.rename(path + ".new", to: path)
            } else {
                try FileDescriptor.create(at: path).write(bytes)
            }
            let answer = try ask(try FileDescriptor.open(readingAt: path))
            #expect(try client.picture(answer) == tile(round % 7, side: 8), "round \(round)")
            if round % 20 == 0 { usleep(30_000) }
        }
    }

    /// A file that changes while it is read is one version or an error that may be retried.
    @Test func aFileThatChangesMeanwhile() throws {
        let versions = (0..<2).map { TestPicture.gradient(width: 200 + $0, height: 200).png }
        let path = try directory.write(versions[0], to: "image.png")
        let isOver = Mutex(false)
        let writer = Thread {
            var round = 0
            while !isOver.withLock({ $0 }) {
                round += 1
                guard let file = try? FileDescriptor.open(updatingAt: path) else { continue }
                try? file.write(versions[round % 2])
                if round % 5 == 0 { try? file.truncate(to: versions[0].count / 2) }
                if round % 7 == 0 { try? file.truncate(to: versions[0].count + 5000) }
            }
        }
        writer.start()
        defer { isOver.withLock { $0 = true } }
        var (images, errors) = (0, 0)
        for _ in 0..<200 {
            let answer = try ask(try FileDescriptor.open(readingAt: path), #""retryFailed":true"#)
            if let error = answer.error {
                #expect([.transferFailed, .truncated, .decodeFailed].contains(error.code), "\(error)")
                errors += 1
            } else {
                images += 1
            }
        }
        #expect(images + errors == 200)
    }

    @Test(arguments: [
        #""url":"http://127.0.0.1/a""#, #""headers":{"a":"b"}"#, #""cookies":true"#, #""cacheKey":"x""#,
        #""credentials":{"username":"a","password":"b"}"#, #""allowInvalidCertificates":true"#,
        #""staleFirst":true"#, #""timeoutMs":100"#, #""cache":"no-cache""#, #""cache":"force-cache""#,
    ]) func fieldsOfURLs(members: String) throws {
        let path = try write(tile(1))
        let answer = try ask(try FileDescriptor.open(readingAt: path), members)
        #expect(answer.error?.code == .badRequest)
        #expect(answer.error?.message.contains(members.split(separator: "\"")[0]) == true, "\(answer.text)")
        #expect(try client.picture(try ask(try FileDescriptor.open(readingAt: path))) == tile(1))
    }

    @Test func missingAndManyDescriptors() throws {
        try client.send(#"{"type":"get","id":1,"fds":1}"#)
        #expect(try client.answer(to: 1).error?.code == .badRequest)
        let file = try FileDescriptor.open(readingAt: try write(tile(1)))
        try client.send(#"{"type":"get","id":2,"fds":2}"#, with: file, file)
        #expect(try client.answer(to: 2).error?.code == .badRequest)
        try client.send(#"{"type":"get","id":3,"url":"\#(setting.url("/a"))"}"#, with: file)
        #expect(try client.picture(answering: 3) == tile(1))
    }

    @Test func sizes() throws {
        let file = try FileDescriptor.create(at: directory.file("large"))
        #expect(try ask(file).error?.code == .emptyImage)
        try file.truncate(to: 1 << 20 + 1)
        let error = try #require(try ask(file).error)
        #expect(error.code == .tooLarge && error.message.contains("--max-file"), "\(error)")
    }

    /// Files in memory reach the broker itself, which hands them on.
    @Test func filesInMemory() throws {
        let bytes = tile(4).png
        #expect(try client.picture(try ask(memoryFile(bytes))) == tile(4))
        let sealed = try sealed(bytes)
        usleep(30_000)
        #expect(try client.picture(try ask(sealed)) == tile(4))
        #expect(try ask(sealed).image().source == .memory)
    }

    /// A helper receives several messages for one order. Each gets its own file, and those between them are in order.
    @Test func manyMessagesAtOnce() throws {
        let paths = try (0..<6).map { try write(tile($0), to: "\($0).png") }
        usleep(30_000)
        _ = try ask(try FileDescriptor.open(readingAt: paths[0]))
        let inMemory = try memoryFile(tile(9).png)
        let first = 1000
        for id in first..<first + 120 {
            let text = RawClient.frame(#"{"type":"get","id":\#(id),"fds":1}"#)
            switch id % 10 {
            case 6: try client.send(#"{"type":"stats","id":\#(id)}"#)
            case 7:
                try client.send(text, descriptors: [try FileDescriptor.open(readingAt: directory.path)])
            case 8: try client.send(text, descriptors: [inMemory])
            case 9:
                let writing = unsafe FileDescriptor(owning: open(paths[0], O_WRONLY | O_CLOEXEC))
                try client.send(text, descriptors: [writing])
            default: try client.send(text, descriptors: [try FileDescriptor.open(readingAt: paths[id % 10])])
            }
        }
        for id in first..<first + 120 {
            let answer = try client.answer(to: id)
            switch id % 10 {
            case 6: #expect(answer.error == nil)
            case 7, 9: #expect(answer.error?.code == .badRequest, "\(id)")
            case 8: #expect(try client.picture(answer) == tile(9), "\(id)")
            default: #expect(try client.picture(answer) == tile(id % 10), "\(id)")
            }
        }
        #expect(try setting.broker.stats()[.reservedBytes] == 0)
    }

    /// A client may be gone before a helper has received its message.
    @Test func aClientThatLeavesAtOnce() throws {
        let path = try write(tile(7))
        for _ in 0..<500 {
            let other = try setting.client()
            try other.request("get", of: FileDescriptor.open(readingAt: path))
            other.close()
        }
        try eventually("no helper has the file open") {
            setting.broker.status.children.allSatisfy { !$0.openFiles.contains(path) }
        }
        #expect(try client.picture(try ask(try FileDescriptor.open(readingAt: path))) == tile(7))
    }

    @Test func aKilledHelperIsReplaced() throws {
        let file = try settled(try write(tile(6)))
        #expect(try client.picture(try ask(file)) == tile(6))
        for helper in setting.broker.descriptorHelpers { kill(helper.pid, SIGKILL) }
        // A message that a dying helper has is lost with its connection; another connection is served.
        try eventually("a helper serves") { (try? ask(file, by: setting.client()).image()) != nil }
    }

    @Test func descriptorsAreGivenBack() throws {
        let file = try settled(try write(tile(2)))
        _ = try ask(file)
        let warm = try setting.broker.settledDescriptorsBesidesImages()
        for round in 0..<50 {
            let other = try setting.client()
            let id = try other.request("get", #""cache":"reload""#, of: file)
            if round % 2 == 0 { try other.send(#"{"type":"cancel","id":100,"request":\#(id)}"#) }
            if round % 3 == 0 { _ = try other.answer(to: id) }
            other.close()
        }
        let report = try setting.idle()
        #expect(report[.reservedBytes] == 0)
        try setting.broker.waitForSettledDescriptors(warm, images: report[.memoryEntries])
    }

    /// After a restart, a scaled image is found by the file's identity; the file itself is nowhere in the cache.
    @Test func scaledImagesOutliveTheBroker() throws {
        let disk = try DiskSetting()
        let picture = TestPicture.gradient(width: 900, height: 900)
        let path = try write(picture, to: "photo.png")
        let file = try settled(path)
        let first = try ask(file, #""variant":{"width":300}"#, by: disk.client)
        #expect(try first.image().source == .file)
        let shown = try disk.client.picture(first)
        try disk.wait(for: .on, entries: 2)
        let kept = try FileManager.default.subpathsOfDirectory(atPath: disk.cache)
            .compactMap { FileManager.default.contents(atPath: disk.cache + "/" + $0) }
        #expect(!kept.contains { $0.range(of: Data(picture.png.prefix(4000).suffix(1000))) != nil })
        try disk.restartUntilReady()
        let second = try ask(file, #""variant":{"width":300}"#, by: disk.client)
        #expect(try (second.image().source, disk.client.picture(second)) == (.disk, shown))
        // A changed file has no raster.
        _ = try write(tile(1), to: "photo.png")
        #expect(try ask(try settled(path), #""variant":{"width":300}"#, by: disk.client).image().source == .file)
    }

    @Test func clientLibrary() throws {
        let path = try write(tile(3))
        usleep(30_000)
        let broker = try ImageBroker(path: setting.broker.socketPath)
        let image = try broker.get(path: path)
        #expect(image.reply.source == .file && image.reply.width == 16)
        let file = try FileDescriptor.open(readingAt: path)
        #expect(try broker.get(file: file).reply.source == .memory)
        #expect(try broker.query(file: file).memory)
        #expect(try broker.remove(file: file) == 1)
        #expect(try !broker.query(file: file).memory)
        #expect(try ask(file, #""cache":"only-if-cached""#).error?.code == .notCached)
        #expect(throws: ClientError.self) { try broker.get(path: directory.file("absent")) }
    }

    @Test func command() throws {
        let (one, two) = (try write(tile(1), to: "one.png"), try write(tile(2), to: "two.png"))
        let result = try setting.broker.run(
            ["get", one, two, directory.file("none.png"), "-o", directory.file("{name}.webp")])
        #expect(result.exit == .status(1) && result.output.split(separator: "\n").count == 2, "\(result)")
        // The failed one, and the totals.
        #expect(result.errorLines.count == 2 && result.errorLines[0].contains("none.png"), "\(result.errors)")
        #expect(directory.names == ["one.png", "one.webp", "two.png", "two.webp"])
        let json = try setting.broker.run(["get", one, two, "--json"])
        #expect(json.exit == .status(0))
        #expect(json.output.split(separator: "\n").allSatisfy { $0.contains(#""input":"#) })
        let get = "\(BuiltProducts.folder)/imgbroker get - --socket \(setting.broker.socketPath)"
        let piped = try run("/bin/sh", ["-c", "cat \(one) | \(get)"])
        #expect(piped.exit == .status(0) && piped.output.contains("16 × 16"), "\(piped.errors)")
        let folder = try setting.broker.run(["get", directory.path])
        #expect(folder.exit == .status(1) && folder.errors.contains("is a directory. Its files are loaded by: find "))
    }
}
