import Digests

/// A download worker with an intruder in it harms only what it downloads, and not for longer than it lives.
@Suite(.blocking, .timeLimit(.minutes(10))) struct CompromisedFetchTests {
    private func setting() throws -> AttackedSetting {
        let setting = try AttackedSetting(impostors: ["imgfetch"])
        try setting.idle()
        return setting
    }

    /// Each ends with an error, or with the image that was asked for; the next image is loaded, nothing is lost.
    @Test(
        arguments: [
            ("nonsense", DeathCause.protocol), ("no-json", .protocol), ("no-frame", .protocol),
            ("ready-again", .protocol),
            ("descriptors", .protocol), ("execve", .seccomp), ("fork", nil), ("ptrace", .seccomp),
            ("memfd", .seccomp), ("two-files", .protocol), ("bytes", .protocol), ("many-bytes", .protocol),
            ("other-job/8/8/5", nil), ("flood/8/8/5", nil), ("wander/8/8/5", nil), ("confirm", nil), ("more", nil),
            ("giant", nil), ("fewer", nil), ("address", nil), ("mapped", nil), ("cookies/8/8/5", nil),
        ] as [(String, DeathCause?)])
    func attacks(attack: String, cause: DeathCause?) throws {
        let setting = try setting()
        try setting.loadGood(7, from: .network)
        // Without the client's connection.
        let warm = try setting.broker.settledDescriptorsBesidesImages() - 1
        let isHarmless = attack.contains("/")
        // Some of the others end only with it.
        let limit = isHarmless ? 60 : 20
        let id = try setting.client.get(
            setting.url(attack), #""delivery":"none","cookies":true,"totalTimeoutMs":\#(limit)000"#)
        let answer = try setting.client.answer(to: id, within: 80)
        #expect((answer.error == nil) == isHarmless, "\(String(describing: answer.error))")
        try setting.loadGood(9, from: .network)
        let after = try setting.idle()
        #expect(Set(after.workerDeaths.keys) == Set(cause.map { [$0] } ?? []))
        #expect(after[.reservedBytes] == 0)
        setting.client.close()
        try setting.broker.waitForSettledDescriptors(warm, images: after[.memoryEntries])
        try setting.broker.allChildren()
    }

    @Test func `a body that was taken cannot be changed`() throws {
        let setting = try setting()
        var message = "refused: 0"
        // A worker that rested meanwhile has kept nothing.
        for round in 0..<10 where message == "refused: 0" {
            _ = try setting.client.load(setting.url("keep/8/8/\(8 + round)"))
            message = try setting.client.failure(setting.url("write-kept"), #""retryFailed":true"#).message
        }
        #expect(message == "refused: 3", "\(setting.broker.logTail)")
    }

    @Test func `what it has downloaded is discarded when it is found out`() throws {
        let setting = try setting()
        try setting.loadGood(7, from: .network)
        try setting.loadGood(7, from: .memory)
        _ = try setting.client.failure(setting.url("execve"))
        try setting.loadGood(7, from: .network)
    }
}

/// A decode worker that names bytes falsely harms others only until it is found out.
@Suite(.blocking, .timeLimit(.minutes(10))) struct FalseDigestTests {
    @Test(arguments: [false, true]) func `the image that it has claimed is loaded again`(restarts: Bool) throws {
        let cache = try TemporaryDirectory()
        let setting = try AttackedSetting(["--cache-dir", cache.file("c")])
        try setting.idle()
        let digest = SHA256.hexadecimalDigest(of: Array("good 8 8 7".utf8))
        let wrong = try setting.client.load(setting.url("claim/\(digest)/8/8/9"))
        #expect(try setting.client.bytes(of: wrong) == [UInt8](repeating: 9, count: 256))
        try setting.client.release([try #require(wrong.image().buffer)])
        _ = try setting.client.failure(setting.url("execve"))
        try setting.idle()
        try setting.loadGood(7, from: .network)
    }
}

/// A cache process with an intruder in it costs hits, and what it has given is forgotten when it is found out.
@Suite(.blocking, .timeLimit(.minutes(10))) struct CompromisedCacheTests {
    private func setting(_ attack: String) throws -> AttackedSetting {
        let setting = try AttackedSetting(
            ["--cache-dir", "/tmp/never-made"], marks: ["attack": attack], impostors: ["imgcache"])
        try setting.idle()
        return setting
    }

    @Test(arguments: [
        "silent", "nonsense", "no-frame", "other-job", "unsealed", "short", "bytes-short", "bytes-long",
        "bytes-raster", "padded", "giant", "other-key", "raster", "input",
        "execve", "missing",
    ])
    func `no answer of its is an image that was not asked for`(attack: String) throws {
        let setting = try setting(attack)
        for value in [1, 2] {
            let answer = try setting.client.load(setting.url("good/8/8/\(value)"))
            #expect(try setting.client.bytes(of: answer) == [UInt8](repeating: UInt8(value), count: 256))
        }
        try setting.loadGood(2, from: .memory)
        #expect(try setting.broker.stats()[.reservedBytes] == 0)
        try setting.broker.allChildren()
    }

    /// The process that closes files is replaced, and frees large buffers again.
    @Test func `a file that takes long to close holds up no other`() throws {
        let setting = try setting("lingering")
        func closer() -> Int32? {
            setting.broker.status.children.first { $0.arguments.dropFirst().first == "close-descriptors" }?.pid
        }
        let first = try #require(closer())
        try setting.loadGood(1, from: .network)
        do {
            try eventually("the process is replaced") { closer().map { $0 != first } ?? false }
        } catch {
            let children = setting.broker.status.children.map { "\($0.pid) \($0.name) \($0.openFiles)" }
            throw TestFailure("\(error): \(children), \(setting.broker.logTail)")
        }
        try setting.broker.allChildren()
    }

    @Test func `what it has given is forgotten when it is found out`() throws {
        let setting = try setting("poison")
        let poisoned = try setting.client.load(setting.url("good/8/8/7"))
        #expect(try setting.client.bytes(of: poisoned) == [UInt8](repeating: 66, count: 256))
        _ = try setting.client.ask("query", #""url":"\#(setting.url("good/8/8/7"))""#)
        try setting.broker.wait(for: "it is found out") { $0.workerDeaths == [.seccomp: 1] }
        try setting.broker.wait(for: "the image is forgotten") { $0[.memoryEntries] == 0 }
    }
}
