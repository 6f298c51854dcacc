/// The surroundings that a broker starts in: what keeps it from starting, what it works around, and what it leaves
/// alone.
@Suite(.blocking, .timeLimit(.minutes(10))) struct StartTests {
    @Test func `a lock on the directory delays the start, and no more`() throws {
        let directory = try TemporaryDirectory()
        let lock = try FileDescriptor.open(readingAt: directory.path)
        #expect(try lock.tryLock())
        let broker = try TestBroker(in: directory)
        #expect(broker.logLines.contains { $0.contains("locked: starting all the same") })
    }

    @Test(arguments: [SIGHUP, SIGINT]) func `a signal that was ignored at the start stays ignored`(_ signal: Int32)
        throws
    {
        let broker = try TestBroker(preparation: "trap '' \(signal); ")
        broker.signal(signal)
        #expect(try broker.stats()[.requests] == 0)
        #expect(!broker.logLines.contains { $0.contains("ending") || $0.contains("reload") })
        #expect(try broker.stop() == .status(0))
    }

    @Test func `closed standard streams are opened before anything else is`() throws {
        let directory = try TemporaryDirectory()
        let script = #"exec "$0" --disk-limit 0 --socket "$1" 3<&- 0<&- 1>&- 2>&-"#
        let child = try ChildProcess("/bin/sh", ["-c", script, program, directory.file("s")])
        defer { child.kill() }
        try eventually("it answers") { (try? RawClient(directory.file("s")).stats()) != nil }
        for number in 0...2 {
            let target = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(child.pid)/fd/\(number)")
            #expect(target == "/dev/null")
        }
    }

    @Test(arguments: [
        ["--socket", ""], ["--socket="], ["--cache-dir", ""], ["get", "http://a/", "--socket", ""],
        ["get", "http://a/", "-o", ""], ["ctl", "stats", "--socket", ""],
    ]) func `an empty path is refused`(_ words: [String]) throws {
        let result = try imgbroker(words)
        #expect(result.exit == .status(2) && result.errors.contains("needs a path"), "\(result)")
    }

    @Test func `without enough descriptors it says so`() throws {
        let directory = try TemporaryDirectory()
        let script = "ulimit -n 40; exec \"$0\" --disk-limit 0 --workers 2 --socket \(directory.file("s"))"
        let result = try run("/bin/sh", ["-c", script, program])
        #expect((result.exit, result.errorLines.count) == (.status(1), 1))
        #expect(result.errors.contains("descriptors"), "\(result.errors)")
    }

    @Test(.enabled(if: Mount.isPossible)) func `without proc it says so`() throws {
        let script = "umount -l /proc && exec \"$0\" --disk-limit 0 --socket /none/s"
        let result = try run("/usr/bin/unshare", ["--mount", "/bin/sh", "-c", script, program])
        #expect((result.exit, result.errorLines.count) == (.status(1), 1))
        #expect(result.errors.contains("/proc is not mounted"), "\(result.errors)")
    }

    @Test func `the socket's rights are not given to the target of a link`() throws {
        let directory = try TemporaryDirectory()
        let (target, link) = (try directory.write("", to: "target"), directory.file("link"))
        #expect(unsafe chmod(target, 0o600) == 0)
        #expect(unsafe symlink(target, link) == 0)
        for path in [link, target] {
            #expect(throws: SystemError.self) { try UnixSocket.setAccess(of: path, mode: 0o666, group: nil) }
        }
        #expect(try mode(of: target) == 0o600)
        let listener = try UnixSocket.listen(at: directory.file("s"), mode: 0o640)
        #expect(try mode(of: directory.file("s")) == 0o640)
        withExtendedLifetime(listener) {}
    }

    /// In a container, orphans become children of process 1.
    @Test(.enabled(if: Mount.isPossible)) func `as process 1 it reaps the orphans of others`() throws {
        let directory = try TemporaryDirectory()
        let namespace = try ChildProcess(
            "/usr/bin/unshare",
            [
                "--pid", "--fork", "--kill-child", "--mount-proc", program, "--disk-limit", "0", "--workers", "1",
                "--socket", directory.file("s"),
            ])
        defer { namespace.kill() }
        try eventually("it answers") { (try? RawClient(directory.file("s")).stats()[.workers]) == 1 }
        let broker = try #require(ProcessStatus(pid: namespace.pid).children.first)
        try eventually("an orphan has become its child") {
            // The parent exits first; its child lives on for a moment, which may be over before it is seen.
            _ = try run(
                "/usr/bin/nsenter", ["--target", "\(broker.pid)", "--pid", "/bin/sh", "-c", "sleep 0.2 & exit 0"])
            return broker.children.contains { $0.name == "sleep" }
        }
        try eventually("none is left over") {
            !broker.children.contains { ["sleep", "sh"].contains($0.name) || !$0.isAlive }
        }
        // Its own workers are reaped by their own means, and replaced.
        let worker = try #require(broker.children.first { $0.name == "imgfetch" })
        kill(worker.pid, SIGKILL)
        try eventually("the worker is gone") { !broker.children.contains(worker) }
        #expect(try RawClient(directory.file("s")).stats().workerDeaths.values.reduce(0, +) == 1)
    }

    /// The cache process runs as another user, who may not search the directory above.
    @Test(.enabled(if: getuid() == 0), arguments: [[], ["--user", "daemon"]])
    func `a cache directory that only root may reach works`(_ words: [String]) throws {
        let directory = try TemporaryDirectory()
        let locked = directory.file("locked")
        try FileSystem.makeDirectory(locked, mode: 0o700)
        let setting = try DiskSetting(words, cache: locked + "/cache", in: directory)
        try setting.wait(for: .on)
        _ = try setting.load(1)
        try setting.broker.wait(for: "the original is saved") { $0[.diskEntries] > 0 }
        try setting.restartUntilReady()
        #expect(try setting.load(1).source == .disk)
        #expect(setting.downloads(1) == 1)
        #expect(FileManager.default.fileExists(atPath: setting.cache + "/index.sqlite"))
    }
}
