/// Workers that crash, are killed or hang.
@Suite(.blocking, .timeLimit(.minutes(10))) struct WorkerDeathTests {
    @Test func twoCrashesFailTheImage() throws {
        let (setting, bad) = (try AttackedSetting(), "hold/512/512/1")
        try setting.idle()
        let warm = try setting.broker.settledDescriptors()
        let (client, other) = (try RawClient(setting.broker.socketPath), try RawClient(setting.broker.socketPath))
        let id = try client.get(setting.url(bad))
        let joined = try other.get(setting.url(bad))
        for signal in [SIGSEGV, SIGABRT] {
            // The output is reserved: the decoding is in progress, and ends only by the signal.
            try setting.broker.wait(for: "the decoding is in progress") { $0[.reservedBytes] == 1 << 20 }
            setting.broker.signal(try setting.broker.busyWorker(.decode), signal)
            try setting.broker.wait(for: "it is gone") {
                $0[.workerRestarts] == (signal == SIGSEGV ? 1 : 2)
            }
        }
        for error in [try client.answer(to: id).error, try other.answer(to: joined).error] {
            #expect((error?.code, error?.isRetryable) == (.decoderCrashed, false))
        }
        #expect(try client.bytes(of: client.load(setting.url("good/8/8/2"))) == [UInt8](repeating: 2, count: 256))
        let report = try setting.idle()
        #expect((report[.reservedBytes], report[.failed], report.workerDeaths) == (0, 2, [.signal: 2]))
        // The original of the bad image stays, and the original and pixels of the good one.
        #expect(report[.memoryEntries] == 3)
        for client in [client, other] { client.close() }
        try setting.broker.wait(for: "no lease is left") { $0[.leasedBytes] == 0 }
        try setting.broker.waitForSettledDescriptors(warm, images: 3)
        #expect(setting.origin.statistics("/" + bad).requests == 1)
    }

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

    @Test func stoppedDecodeWorkerIsReplaced() throws {
        // Long enough to find and stop the second worker on a busy machine while the first one still has its job.
        let (setting, client) = try Setting(["--decode-deadline", "20"], workers: 2) { request in
            Int(request.path.dropFirst()).map { .ok(TestPNG.blank(width: $0, height: 5000)) } ?? png(tile(3))
        }.withClient()
        try setting.idle()
        var (begun, width) = (Instant.now, 5000)
        var (big, standing): ([Int], [ProcessStatus]) = ([], [])
        try eventually("two workers are stopped while they decode") {
            begun = .now
            // Of different widths, because equal bytes would share one decoding.
            width += 8
            let ended = try setting.broker.stats().ended
            let id = try client.get(setting.url("/\(width)"), #""delivery":"none""#)
            var worker: ProcessStatus?
            try eventually("a decoding runs, or has ended") {
                worker = setting.broker.busyWorkers(.decode).first { !standing.contains($0) }
                return try worker != nil || setting.broker.stats().ended > ended
            }
            if let worker {
                try setting.broker.stop(worker)
                // What the worker has sent before was read before the second request for statistics.
                _ = try setting.broker.stats()
                if try setting.broker.stats().runningJobs[.decode] == standing.count + 1 {
                    big.append(id)
                    standing.append(worker)
                    return standing.count == 2
                }
                setting.broker.signal(worker, SIGCONT)
            }
            // The decoding has ended before its worker was stopped.
            _ = try client.answer(to: id).image()
            return false
        }
        // The spare takes no job while two workers are busy.
        #expect(try client.picture(answering: client.get(setting.url("/small"))) == tile(3))
        for id in big { _ = try client.answer(to: id).image() }
        // Not before the deadline, which starts with the decoding.
        #expect(Instant.now.microseconds(since: begun) > 19_000_000)
        for worker in standing { try eventually("\(worker.pid) is gone") { !worker.isAlive } }
        let report = try setting.idle()
        #expect((report[.workerRestarts], report.workerDeaths) == (2, [.deadline: 2]))
    }

    /// Transfers restart with another worker; received bytes are not counted twice.
    @Test func killedFetchWorker() throws {
        let picture = TestPicture.gradient(width: 100, height: 100)
        let file = picture.png
        let (setting, client) = try Setting { _ in .ok(file).with { $0.hold = .afterBytes(20_000) } }.withClient()
        let ids = try (0..<3).map { try client.get(setting.url("/\($0)"), #""progress":true"#) }
        for path in ["/0", "/1", "/2"] { setting.origin.expectHeld(path) }
        try setting.broker.wait(for: "bytes are reserved") { $0[.reservedBytes] > 0 }
        setting.broker.signal(try setting.broker.busyWorker(.fetch), SIGKILL)
        for path in ["/0", "/1", "/2"] {
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
