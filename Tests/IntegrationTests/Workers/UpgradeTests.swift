/// The programs are replaced while the broker runs, as an update of the package does.
@Suite(.blocking, .timeLimit(.minutes(10))) struct UpgradeTests {
    enum Change: CaseIterable {
        case removed, replaced, folderRemoved, folderRenamed
    }

    private static let programs = ["imgbroker", "imgfetch", "imgworker", "imgcache"]

    private func make(_ change: Change, in folder: String) throws {
        let files = FileManager.default
        switch change {
        case .removed: for name in Self.programs { try files.removeItem(atPath: folder + "/" + name) }
        case .replaced:
            // Renamed over the old file, as a package manager does. None of the new ones works.
            for name in Self.programs {
                let new = folder + "/new"
                try Programs.write("#!/bin/sh\nexit 1\n", to: new)
                try #require(unsafe rename(new, folder + "/" + name) == 0)
            }
        case .folderRemoved: try files.removeItem(atPath: folder)
        case .folderRenamed: try files.moveItem(atPath: folder, toPath: folder + "-old")
        }
    }

    @Test(arguments: Change.allCases) func `a running broker keeps its programs`(change: Change) throws {
        let directory = try TemporaryDirectory()
        let folder = directory.file("bin")
        try directory.makeDirectory("bin")
        try Programs.install(Self.programs, in: folder)
        let origin = try TestOrigin { request in
            Int(request.path.dropFirst()).map { png(tile($0)) } ?? .status(404)
        }
        let broker = try TestBroker(["--cache-dir", directory.file("cache")], folder: folder, in: directory)
        try broker.waitUntilIdle()
        let first = try RawClient(broker.socketPath)
        #expect(try first.picture(of: origin.url("/1")) == tile(1))

        try make(change, in: folder)
        for round in 2...4 {
            let former = broker.status.children
            for child in former { broker.signal(child, SIGKILL) }
            let client = try RawClient(broker.socketPath)
            for number in [round * 10, round * 10 + 1] {
                #expect(try client.picture(of: origin.url("/\(number)")) == tile(number))
            }
            // A process of the broker's own program receives the descriptor.
            #expect(try client.store(origin.url("/stored/\(round)"), memoryFile(tile(5).png)).isOK)
            try broker.waitUntilIdle()
            try eventually("the killed processes are gone") {
                Set(former).isDisjoint(with: broker.status.children.filter { $0.isAlive })
            }
        }
        // A fork server that lived less than a second is replaced when the next worker starts.
        try eventually("there is a fork server") {
            if broker.forkServer == nil, broker.hasFullCrew, let worker = broker.workers(.decode).first {
                broker.signal(worker, SIGKILL)
            }
            return broker.forkServer != nil
        }
        try broker.waitUntilIdle()
        let causes = Set(try broker.stats().workerDeaths.keys)
        // On a busy machine a killed worker's socket may end a second before the process does, which counts as a
        // deadline.
        #expect(causes.isSubset(of: [.outside, .deadline]), "\(broker.logTail)")
        #expect(try broker.stop() == .status(0))
    }

    /// A worker that reports ready in another version, or in none, as those before 0.1 did.
    @Test(arguments: [#""version":"0.0.9","#, ""]) func `a worker of another version is refused`(field: String) throws {
        let directory = try TemporaryDirectory()
        try Programs.install(["imgbroker", "imgfetch", "imgcache"], in: directory.path)
        let report = #"{"type":"ready",\#(field)"sandbox":{"seccomp":true,"landlock":7}}"#
        try Programs.write("#!/bin/sh\n\(workerScript(sending: report))\n", to: directory.file("imgworker"))
        let broker = try TestBroker(workers: 1, folder: directory.path)
        try broker.wait(for: "three workers were started") { $0[.workerRestarts] >= 3 }
        let known = field.isEmpty ? "unknown" : "0.0.9"
        let text = "its program has version \(known) and the broker has \(ProductVersion.current): install all programs"
        let lines = broker.logLines.filter { $0.contains("a decode worker is gone") }
        #expect(!lines.isEmpty && lines.allSatisfy { $0.contains(text) && $0.contains("restart the broker") })
        let figures = try broker.stats()
        #expect(Set(figures.workerDeaths.keys) == [.notStarted])
        #expect(figures[.workers] == 0)
        // Pauses grow from 100 ms.
        #expect(figures[.workerRestarts] <= 12)
        #expect(broker.status.processorTime < 300)
        #expect(try broker.stop() == .status(0))
    }
}
