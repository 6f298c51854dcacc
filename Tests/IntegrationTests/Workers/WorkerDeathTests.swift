/// Workers that crash, are killed or hang.
@Suite(.blocking, .timeLimit(.minutes(10))) struct WorkerDeathTests {
    /// One crash is retried. Kills from outside never count against the image.
    @Test(arguments: [(SIGSEGV, 1, DeathCause.signal), (SIGKILL, 5, .outside)])
    func deathsThatAreRetried(signal: Int32, count: Int, cause: DeathCause) throws {
        let setting = try AttackedSetting()
        try setting.idle()
        let id = try setting.client.get(setting.url("hold/512/512/7"))
        /// Sends a signal to the worker that decodes, which waits for one.
        func send(_ signal: Int32) throws {
            // The output is reserved: the decoding is in progress.
            try setting.broker.wait(for: "the decoding is in progress") { $0[.reservedBytes] == 1 << 20 }
            setting.broker.signal(try setting.broker.busyWorker(.decode), signal)
        }
        for restarts in 1...count {
            try send(signal)
            try setting.broker.wait(for: "the worker is replaced") { $0[.workerRestarts] == restarts }
        }
        try send(SIGUSR1)
        let answer = try setting.client.answer(to: id)
        #expect(try setting.client.bytes(of: answer) == [UInt8](repeating: 7, count: 1 << 20))
        let report = try setting.idle()
        #expect(report[.workerRestarts, .reservedBytes] == [count, 0])
        // On a busy machine one exits later than a second after its socket's end.
        let slow = report.workerDeaths[.deadline] ?? 0
        #expect(slow <= 1 && report.workerDeaths.values.reduce(0, +) == count)
        #expect(report.workerDeaths[cause] ?? 0 == count - slow)
    }

    /// Transfers restart with another worker; received bytes are not counted twice.
    @Test func killedFetchWorker() throws {
        let picture = TestPicture.gradient(width: 100, height: 100)
        let file = picture.png
        let (setting, client) = try Setting { _ in .ok(file).with { $0.hold = .afterBytes(20_000) } }.withClient()
        let paths = ["/0", "/1", "/2"]
        let ids = try paths.map { try client.get(setting.url($0), #""progress":true"#) }
        for path in paths { setting.origin.expectHeld(path) }
        try setting.broker.wait(for: "bytes are reserved") { $0[.reservedBytes] > 0 }
        setting.broker.signal(try setting.broker.busyWorker(.fetch), SIGKILL)
        for path in paths {
            #expect(setting.origin.wait(for: path, seconds: patience) { $0.abandoned == 1 && $0.held == 1 })
            setting.origin.gate(path).open()
        }
        for id in ids { #expect(try client.picture(answering: id) == picture) }
        #expect(try setting.idle()[.reservedBytes, .downloads, .workerRestarts] == [0, 3, 1])
    }

    /// With stopped download workers a request ends by its own timeout.
    @Test func stoppedFetchWorker() throws {
        let (setting, client) = try Setting(routes: ["/a": png(tile(1))]).withClient()
        try setting.idle()
        let workers = try setting.broker.stopAll(.fetch)
        #expect(try client.failure(setting.url("/a"), #""timeoutMs":300"#).code == .timeout)
        for worker in workers { setting.broker.signal(worker, SIGCONT) }
        #expect(try client.picture(of: setting.url("/a")) == tile(1))
        #expect(try setting.idle()[.reservedBytes] == 0)
    }
}

/// Download workers that are lost when they have sealed a body, and have not said so: nothing can be added to it.
@Suite(.blocking, .timeLimit(.minutes(10))) struct SealedBodyTests {
    @Test func bodyIsLoadedAgain() throws {
        let directory = try TemporaryDirectory()
        let (library, state) = (directory.file("seal.so"), try directory.write("1", to: "state"))
        try Compiler.makeLibrary(library, of: "Tests/SealShim/SealShim.c")
        let picture = noise(width: 300, height: 200)
        let file = picture.png
        let origin = try TestOrigin { request in
            .resource(file, etag: "\"1\"", contentType: "image/png", for: request).with {
                // Long enough for reports of progress, from which the transfer would be continued.
                ($0.pieceBytes, $0.pauseMs) = (file.count / 8, 40)
            }
        }
        let programs = try ProgramFolder([
            .fetch: .init(environment: ["LD_PRELOAD=\(library)", "SEAL_EXIT=\(state)"])
        ])
        let (broker, client) = try TestBroker(["--retries", "0"], folder: programs.path).withClient()
        #expect(try client.picture(of: origin.url("/a")) == picture)
        #expect(text(ofFile: state) == "0")
        let report = try broker.waitUntilIdle()
        #expect((report.workerDeaths[.exit], report[.reservedBytes]) == (1, 0))
    }
}
