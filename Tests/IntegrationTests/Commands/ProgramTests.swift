/// The programs' libraries, threads, descriptors, sandbox and failures.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ProgramTests {
    @Test(.enabled(if: CurrentProcess.uid == 0, "only root sees the descriptors of a process that nobody may trace"))
    func threadsAndDescriptors() throws {
        let (setting, client) = try Setting(routes: ["/a": png(tile(1))]).withClient()
        _ = try client.load(setting.url("/a"))
        try setting.idle()
        let broker = setting.broker
        #expect(broker.status.threads == 1)
        // The broker maps its validity page, and never what others can write to.
        let mapped = text(ofFile: "/proc/\(broker.status.pid)/maps").split(separator: "\n").filter {
            $0.contains("memfd:")
        }
        #expect(mapped.allSatisfy { $0.contains("memfd:imgbroker-validity") })
        for worker in broker.workers(.decode) {
            #expect(worker.threads == 1)
            // Standard streams, the control socket and its memory for results: no buffer, no sibling's socket, no
            // listener. The worker closes its last job's descriptors after its report.
            try eventually("\(worker.openFiles) are four") {
                worker.openFiles.count { !$0.contains("memfd:imgbroker-results") } == 4
            }
            // Just after its start it is still what the broker is.
            try eventually("the worker's user is nobody") { worker.user == 65534 || getuid() != 0 }
        }
        for worker in broker.workers(.fetch) {
            try eventually("no worker has a body open") { !worker.openFiles.contains { $0.contains("memfd:") } }
            let files = worker.openFiles
            #expect(!files.contains { $0.contains("[signalfd]") || $0.contains("[pidfd]") }, "\(files)")
            // Just after its start it is still what the broker is.
            try eventually("the worker's user is nobody") { worker.user == 65534 || getuid() != 0 }
        }
        let environment = text(ofFile: "/proc/\(try #require(broker.workers(.decode).first).pid)/environ")
        #expect(!environment.contains("HOME="))
    }

    @Test func socketPermissions() throws {
        let broker = try TestBroker()
        #expect(try mode(of: broker.socketPath) == (getuid() == 0 ? 0o660 : 0o600))
    }

    @Test(arguments: ["imgfetch", "imgworker"]) func workersRefuseManualUse(_ program: String) throws {
        let result = try run(BuiltProducts.folder + "/" + program, [])
        #expect((result.exit, result.errorLines.count) == (.status(2), 1))
    }

    /// Starts a broker with a script in place of the decode worker.
    private func broker(imgworker script: String) throws -> (TemporaryDirectory, TestBroker) {
        let directory = try TemporaryDirectory()
        try Programs.install(["imgbroker", "imgfetch"], in: directory.path)
        try Programs.write("#!/bin/sh\n\(script)\n", to: directory.file("imgworker"))
        return (directory, try TestBroker(workers: 1, folder: directory.path))
    }

    /// A worker that reports ready without a sandbox.
    private static let unconfined = workerScript(
        sending: #"{"type":"ready","version":"\#(ProductVersion.current)"}"#)

    @Test func workersAreConfined() throws {
        let setting = try DiskSetting()
        try setting.wait(for: .on)
        #expect(try setting.broker.waitUntilIdle().sandbox.hasPrefix("seccomp+landlock-"))
        #expect(try setting.broker.allWorkers(.cache).allSatisfy(\.isConfined))
        for worker in try TestBroker.Worker.allCases.flatMap(setting.broker.allWorkers) {
            // A spare may still be starting.
            try eventually("\(worker.name) is confined") { worker.isConfined }
        }
    }

    /// Workers that exit at once are restarted with growing pauses, and the broker keeps running.
    @Test(arguments: [
        "exit 1", "kill -SEGV $$", #"printf '\000\000\000\000garbage' >&3; exec sleep 20"#,
        #"printf '\000\000\000\002{}' >&3; exec sleep 20"#, "exec 3>&-; exec sleep 20", unconfined,
    ]) func failingWorkers(_ script: String) throws {
        let origin = try TestOrigin(routes: ["/a": png(tile(1))])
        let (directory, broker) = try broker(imgworker: script)
        let client = try RawClient(broker.socketPath)
        try broker.wait(for: "three workers were started") { $0[.workerRestarts] >= 3 }
        let error = try client.failure(origin.url("/a"), #""totalTimeoutMs":1500"#)
        #expect([.timeout, .decoderUnavailable].contains(error.code))
        // Pauses of 100 ms, 200 ms, 400 ms and so on; a worker that closed its socket gets a second to exit.
        #expect(try broker.stats()[.workerRestarts] <= 12)
        #expect(broker.status.processorTime < 300)
        #expect(try broker.stats()[.workers] == 0)
        #expect(try broker.stop() == .status(0))
        #expect(directory.names.count == 3)
    }

    /// A worker counts as gone although a process that it started still holds its socket.
    @Test func workerWhoseSocketIsInherited() throws {
        let folder = try TemporaryDirectory()
        // The process lives as long as the folder. It has no standard stream of the tests, because their reader would
        // wait for its exit.
        let loop = "while test -d '\(folder.path)'; do sleep 0.1; done"
        let (_, broker) = try broker(imgworker: "(\(loop)) </dev/null >/dev/null 2>&1 & exit 1")
        defer { withExtendedLifetime(folder) {} }
        let client = try RawClient(broker.socketPath)
        for restarts in 1...3 {
            try eventually("the worker is replaced") { try client.stats()[.workerRestarts] >= restarts }
        }
        #expect(broker.status.processorTime < 200)
        #expect(try broker.stop() == .status(0))
    }

    @Test func missingWorkers() throws {
        let directory = try TemporaryDirectory()
        try Programs.install(["imgbroker"], in: directory.path)
        let result = try run(directory.file("imgbroker"), ["--socket", directory.file("s")])
        #expect((result.exit, result.errorLines.count) == (.status(1), 1))
        #expect(directory.names == ["imgbroker"])
    }

    /// The folder `shared/images` beside the package or one of its parent folders.
    static let images: String? = {
        var folder = BuiltProducts.package
        while let slash = folder.lastIndex(of: "/") {
            folder = String(folder[..<slash])
            let path = folder + "/shared/images"
            if FileManager.default.fileExists(atPath: path + "/MANIFEST.md") { return path }
        }
        return nil
    }()

    @Test(.enabled(if: images != nil)) func sampleImages() throws {
        let folder = try #require(Self.images)
        let origin = try LocalOrigin(folder: folder)
        defer { origin.stop() }
        let (_, client) = try TestBroker().withClient()
        var asked: [(name: String, size: [Int]?, frames: Int, id: Int)] = []
        for line in text(ofFile: folder + "/MANIFEST.md").split(separator: "\n") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count > 5, ["PNG", "JPEG", "WEBP", "GIF"].contains(cells[1]) else { continue }
            // The manifest lists stored sizes; this image is shown rotated.
            var size = cells[3].split(separator: "x").compactMap { Int($0) }
            if cells[0].hasSuffix("Landscape_6.jpg") { size.reverse() }
            let isCorrupt = cells[0].hasPrefix("pngsuite-x")
            asked.append(
                (cells[0], isCorrupt ? nil : size, Int(cells[4]) ?? 1, try client.get(origin.url("/" + cells[0]))))
        }
        #expect(asked.count >= 25)
        for (name, size, frames, id) in asked {
            let incoming = try client.answer(to: id)
            if let size {
                let image = try incoming.image()
                #expect([image.width, image.height] == size, "\(name)")
                #expect(image.frameCount == frames, "\(name)")
                #expect(try client.picture(incoming).bytes.count == image.bytes)
            } else {
                #expect(incoming.error?.code == .decodeFailed, "\(name)")
            }
            #expect(origin.statistics("/" + name).requests == 1)
        }
    }
}

/// Each program links the libraries of its role and no others.
@Suite(.blocking, .timeLimit(.minutes(10))) struct LinkageTests {
    private static let codecs = ["libjpeg", "libpng", "libwebp", "libgif"]
    private static let families = ["libavif", "libheif", "libjxl", "libopenjp2", "librsvg", "libtiff"]
    private static let network = ["libcurl", "libssl", "libcrypto", "libnghttp2"]

    @Test(arguments: [
        ("imgbroker", ["libseccomp"], codecs + families + network + ["libsqlite3", "libmicrohttpd"]),
        ("imgexporter", ["libmicrohttpd"], codecs + ["libcurl", "libseccomp", "libsqlite3"]),
        ("imghttp", ["libmicrohttpd", "libseccomp"], codecs + families + ["libcurl", "libsqlite3"]),
        ("imgfetch", ["libcurl"], codecs + ["libsqlite3"]),
        ("imgworker", codecs, families + network + ["libgnutls", "libsqlite3"]),
        ("imgcache", ["libsqlite3"], codecs + network),
        ("imgtier", ["libmemcached"], codecs + families + ["libcurl", "libnghttp2", "libsqlite3", "libmicrohttpd"]),
    ])
    func libraries(program: String, needed: [String], forbidden: [String]) throws {
        let result = try run("/usr/bin/ldd", [BuiltProducts.folder + "/" + program])
        let linked = result.output
        #expect(result.exit == .status(0) && linked.contains("libc.so"), "\(result)")
        for library in needed { #expect(linked.contains(library), "\(program) lacks \(library)") }
        for library in forbidden + ["libFoundation", "libswiftFoundation", "libxml2"] {
            #expect(!linked.contains(library), "\(program) links \(library)")
        }
    }
}

/// Kernels that cannot confine workers, as in some containers: the broker reports it and decodes nothing, unless an
/// option allows it.
@Suite(.blocking, .timeLimit(.minutes(10))) struct UnconfinedTests {
    /// Creates a folder whose `imgbroker` runs as on a kernel without Landlock.
    private func folder(in directory: TemporaryDirectory) throws -> String {
        let program = directory.file("oldkernel")
        try Compiler.makeProgram(program, of: "Tests/OldKernel/OldKernel.c")
        try directory.makeDirectory("bin")
        let script = "#!/bin/sh\nexec \(program) \(BuiltProducts.folder)/imgbroker \"$@\"\n"
        try Programs.write(script, to: directory.file("bin/imgbroker"))
        return directory.file("bin")
    }

    @Test func noDecodingWithoutLandlock() throws {
        let directory = try TemporaryDirectory()
        let origin = try TestOrigin(routes: ["/a": png(tile(1))])
        let broker = try TestBroker(folder: folder(in: directory), in: directory)
        try eventually("the log states the reason and the remedy") {
            broker.logLines.contains { $0.contains("refused") && $0.contains("--allow-unsandboxed") }
        }
        let client = try RawClient(broker.socketPath)
        let error = try client.failure(origin.url("/a"), #""totalTimeoutMs":1000"#)
        #expect([.timeout, .decoderUnavailable].contains(error.code))
        #expect(origin.requests.isEmpty)
        let report = try broker.stats()
        #expect((report[.workers], report.sandbox) == (0, "seccomp"))
        #expect(try broker.stop() == .status(0))
    }

    @Test func allowUnsandboxed() throws {
        let directory = try TemporaryDirectory()
        let origin = try TestOrigin(routes: ["/a": png(tile(1))])
        let broker = try TestBroker(["--allow-unsandboxed"], folder: folder(in: directory), in: directory)
        let client = try RawClient(broker.socketPath)
        #expect(try client.picture(of: origin.url("/a")) == tile(1))
        #expect(try broker.stats().sandbox == "seccomp")
        try eventually("the processes for descriptors say what they lack") {
            broker.logLines.contains { $0.contains("the process for descriptors is not confined in full") }
        }
        #expect(try broker.stop() == .status(0))
    }
}
