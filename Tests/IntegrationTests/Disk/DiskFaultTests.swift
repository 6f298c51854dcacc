/// Failing file operations in any process: requests get the right image or an error with a code, and no resource is
/// lost.
@Suite(.blocking, .timeLimit(.minutes(10))) struct DiskFaultTests {
    /// The programs, one of which has failing calls.
    private final class Programs {
        let folder: ProgramFolder
        let environment: [String]
        private let directory: TemporaryDirectory
        private let control: FileHandle

        /// Lets calls fail in workers of one kind, or in the broker where that is nil.
        init(failing: TestBroker.Worker?, about subject: String) throws {
            directory = try TemporaryDirectory()
            let (library, control) = (directory.file("faults.so"), directory.file("control"))
            try Compiler.makeLibrary(library, of: "Tests/FaultInjection/FaultInjection.c")
            try Data(count: 4096).write(to: URL(filePath: control))
            #expect(unsafe chmod(control, 0o666) == 0)
            self.control = try FileHandle(forUpdating: URL(filePath: control))
            let variables = ["LD_PRELOAD=\(library)", "FAULT_CONTROL=\(control)", "FAULT_DIRECTORY=\(subject)"]
            environment = failing == nil ? variables : []
            folder = try ProgramFolder(failing.map { [$0: .init(environment: variables)] } ?? [:])
        }

        /// Restarts the count of calls and selects those that fail: see `Tests/FaultInjection`.
        func plan(error: Int32, from first: Int, to last: Int = .max, stride: Int = 1) throws {
            func set(_ field: Int, _ value: Int) throws {
                try control.seek(toOffset: UInt64(field * 8))
                try unsafe withUnsafeBytes(of: value) { try unsafe control.write(contentsOf: Data($0)) }
            }
            try set(1, 0)
            for (field, value) in [(0, 0), (5, 0), (2, last), (3, stride), (4, Int(error)), (1, first)] {
                try set(field, value)
            }
        }

        func failed() throws -> Int {
            try control.seek(toOffset: 5 * 8)
            return (try control.read(upToCount: 8) ?? Data()).reversed().reduce(0) { $0 << 8 | Int($1) }
        }
    }

    /// Some or all calls of the disk tier fail: no request fails.
    @Test(arguments: [(EIO, 11), (EIO, 1), (ENOSPC, 3), (-1, 900)])
    func failingDisk(_ error: Int32, _ stride: Int) throws {
        let directory = try TemporaryDirectory()
        let open = directory.file("open")
        try FileSystem.makeDirectory(open, mode: 0o755)
        #expect(unsafe chmod(open, 0o777) == 0)
        let programs = try Programs(failing: .cache, about: open + "/cache")
        let origin = try TestOrigin(
            routes: Dictionary(uniqueKeysWithValues: (0..<50).map { ("/\($0)", png(flat($0, width: 60, height: 60))) }))
        // Little memory, so that nearly every request queries the disk tier.
        let (broker, client) = try TestBroker(
            ["--cache-dir", open + "/cache", "--memory-limit", "128K"], folder: programs.folder.path
        ).withClient()
        func load(_ numbers: [Int]) throws {
            let ids = try numbers.map {
                try client.get(origin.url("/\($0)"), $0 % 2 == 0 ? "" : thumbnail)
            }
            for (number, id) in zip(numbers, ids) {
                let incoming = try client.answer(to: id)
                let side = number % 2 == 0 ? 60 : 20
                let wanted = flat(number, width: side, height: side)
                #expect(try client.picture(incoming) == wanted, "\(number)")
                if let buffer = try incoming.image().buffer { try client.release([buffer]) }
            }
        }
        try load(Array(0..<20))
        try programs.plan(error: error, from: 1, stride: stride)
        // How many calls a round makes depends on the speed of the machine: saves of slow rounds are written together.
        for round in 0..<200 {
            if try round >= 4 && programs.failed() > 0 { break }
            try load((0..<20).map { ($0 + round * 5) % 50 })
        }
        #expect(try programs.failed() > 0)
        try programs.plan(error: error, from: 0)
        try load(Array(0..<50))
        #expect(try client.stats()[.failed] == 0)
        try broker.wait(for: "no job is left") {
            $0[.running] == 0 && $0[.queued] == 0 && $0[.reservedBytes] == 0
        }
        #expect(try broker.stop() == .status(0))
    }

    /// A worker runs out of memory, quota or space while it writes a buffer: the job fails with a code, and neither the
    /// worker nor the reservation is lost.
    @Test(arguments: [
        (TestBroker.Worker?.some(.decode), ENOSPC), (.decode, ENOMEM), (.fetch, EDQUOT), (nil, ENOMEM),
    ])
    func bufferWithoutSpace(_ worker: TestBroker.Worker?, _ error: Int32) throws {
        let programs = try Programs(failing: worker, about: "*")
        let origin = try TestOrigin { request in
            guard let number = Int(request.path.dropFirst()) else { return .status(404) }
            // Large enough that pixels and file are written in several calls, and slow enough for a small body to get a
            // file.
            return png(noise(number, width: 200, height: 150)).with {
                if worker == .fetch { ($0.pieceBytes, $0.pauseMs) = (5000, 70) }
            }
        }
        let broker = try TestBroker(workers: 1, environment: programs.environment, folder: programs.folder.path)
        let client = try RawClient(broker.socketPath)
        _ = try client.load(origin.url("/1")).image()
        let before = try broker.waitUntilIdle(workers: 1)
        // A worker's first call succeeds. The broker's only calls create the buffers.
        for (number, first) in [(2, worker == nil ? 1 : 2), (3, 1)] {
            try programs.plan(error: error, from: first)
            let failure = try client.failure(origin.url("/\(number)"), #""totalTimeoutMs":25000"#)
            #expect([.outOfMemory, .diskFailed].contains(failure.code), "\(failure)")
            #expect(try programs.failed() > 0)
        }
        try programs.plan(error: error, from: 0)
        #expect(try broker.waitUntilIdle(workers: 1)[.workerRestarts, .reservedBytes] == [before[.workerRestarts], 0])
        #expect(try client.load(origin.url("/7")).image().width == 200)
        #expect(try client.load(origin.url("/1")).image().source == .memory)
    }

    /// The kernel has no memory for an order: it is sent later, and no worker is killed.
    @Test func orderWithoutMemory() throws {
        let programs = try Programs(failing: nil, about: "*")
        let origin = try TestOrigin(routes: ["/1": png(flat(1))])
        let broker = try TestBroker(workers: 1, environment: programs.environment, folder: programs.folder.path)
        let client = try RawClient(broker.socketPath)
        _ = try client.load(origin.url("/1"), #""delivery":"none""#)
        try broker.waitUntilIdle(workers: 1)
        try programs.plan(error: ENOBUFS, from: 1)
        let id = try client.get(origin.url("/1"), thumbnail)
        try eventually("it is tried again") { try programs.failed() >= 3 }
        try programs.plan(error: ENOBUFS, from: 0)
        #expect(try client.picture(answering: id) == flat(1, width: 20, height: 20))
        #expect(try broker.stats().workerDeaths.isEmpty)
    }

    /// The directory is replaced by a file, and restored: meanwhile the broker serves without the disk tier.
    @Test(arguments: [false, true]) func replacedDirectory(hasFiles: Bool) throws {
        let setting = try DiskSetting(hasFiles: hasFiles)
        for number in 0..<4 { #expect(try setting.load(number).picture == flat(number)) }
        try setting.wait(for: .on, entries: 4)
        let files = FileManager.default
        let aside = setting.cache + ".aside"
        var number = 10
        func loadUntil(_ state: DiskReport.State) throws {
            try eventually("the disk tier is \(state.rawValue)") {
                #expect(try setting.load(number).picture == flat(number))
                number += 1
                return try setting.broker.stats().diskState == state.rawValue
            }
        }
        try files.moveItem(atPath: setting.cache, toPath: aside)
        try Data("mine".utf8).write(to: URL(filePath: setting.cache))
        try loadUntil(.off)
        #expect(files.contents(atPath: setting.cache) == Data("mine".utf8))
        #expect(setting.broker.logLines.contains { $0.contains("warning") && $0.contains("disk tier is off") })
        try setting.end()
        try files.removeItem(atPath: setting.cache)
        try files.moveItem(atPath: aside, toPath: setting.cache)
        try setting.start()
        try setting.wait(for: .on, entries: 4)
        for number in 0..<4 { #expect(try setting.load(number).source == .disk) }
        #expect(try setting.client.stats()[.failed] == 0)
    }
}
