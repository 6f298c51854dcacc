/// The workers' resource limits, and real images within them.
@Suite(.blocking, .timeLimit(.minutes(10))) struct WorkerLimitTests {
    @Test func limitsOfTheProcesses() throws {
        let setting = try Setting(workers: 1, routes: ["/a": png(tile(1))])
        _ = try setting.client().load(setting.url("/a"))
        try setting.idle()
        func limits(_ name: String) -> [String] {
            setting.broker.workers(.decode).map { worker in
                let line = text(ofFile: "/proc/\(worker.pid)/limits").split(separator: "\n")
                    .first { $0.hasPrefix(name) }
                return line?.dropFirst(name.count).split(separator: " ").first.map(String.init) ?? ""
            }
        }
        // A spare may still be starting.
        try eventually("each decoder has its limits") {
            limits("Max data size") == ["\(1 << 30)", "\(1 << 30)"]
                && limits("Max file size") == ["800065536", "800065536"]
        }
        try eventually("the kernel would kill workers first") {
            let workers = setting.broker.workers(.fetch) + setting.broker.workers(.decode)
            return workers.allSatisfy { text(ofFile: "/proc/\($0.pid)/oom_score_adj") == "800\n" }
        }
    }

    /// No system call of a codec's first job is denied.
    @Test(arguments: ["png", "jpg", "webp"]) func firstJobOfAWorker(format: String) throws {
        let picture = TestPicture.gradient(width: 300, height: 300)
        let files = ["png": picture.png, "jpg": picture.jpeg(.baseline), "webp": picture.webp(lossless: false)]
        let (setting, client) = try Setting(workers: 1, routes: ["/a": .ok(try #require(files[format]))]).withClient()
        #expect(try client.load(setting.url("/a")).image().width == 300)
        #expect(try client.load(setting.url("/a"), #""variant":{"width":70}"#).image().width == 70)
        #expect(try setting.idle().workerDeaths.isEmpty)
    }

    /// 20 megapixels with a colour profile, like a camera's.
    @Test func largePhoto() throws {
        let directory = try TemporaryDirectory()
        let setting = try Setting(workers: 1, routes: ["/a": .ok(TestPNG.blank(width: 4500, height: 4500))])
        let path = directory.file("a.jpg")
        #expect(try setting.broker.run(["get", setting.url("/a"), "-o", path]).failure == nil)
        var file = try #require(contents(path))
        // APP2 with a profile of the largest size of one segment.
        let profile = Array("ICC_PROFILE\0\u{1}\u{1}".utf8) + [UInt8](repeating: 7, count: 65_519)
        file.insert(contentsOf: [0xFF, 0xE2, 0xFF, 0xFF] + profile, at: 2)
        let photo = file
        let origin = try TestOrigin { _ in .ok(photo) }
        let client = try setting.client()
        #expect(try client.load(origin.url("/photo")).image().bytes == 81_000_000)
        #expect(try client.load(origin.url("/photo"), #""variant":{"width":500}"#).image().width == 500)
        #expect(try setting.idle().workerDeaths.isEmpty)
    }
}
