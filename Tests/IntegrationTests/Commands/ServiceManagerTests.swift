/// The broker under a service manager: a socket that is handed over, readiness, and signs of life.
@Suite(.blocking, .timeLimit(.minutes(5))) struct ServiceManagerTests {
    /// Stands in for the service manager's end of `NOTIFY_SOCKET`.
    private final class Notifications {
        let path: String
        private let socket: FileDescriptor

        init(in directory: TemporaryDirectory) throws {
            path = directory.file("notify")
            socket = try datagramSocket(at: path)
        }

        /// Waits for the next message; nil when there is none for a minute.
        func next() -> String? {
            var waited = pollfd(fd: socket.raw, events: Int16(POLLIN), revents: 0)
            guard unsafe poll(&waited, 1, 60_000) == 1 else { return nil }
            var bytes = [UInt8](repeating: 0, count: 4096)
            let count = unsafe recv(socket.raw, &bytes, bytes.count, 0)
            return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
        }
    }

    /// Makes a listening socket at the path of `--socket`, as descriptor 3, and starts the broker without that flag.
    private static func handingOver(_ kind: String = "STREAM", count: Int = 1) -> String {
        let script = """
            import os, socket, sys
            words = sys.argv[2:]
            place = words.index("--socket")
            s = socket.socket(socket.AF_UNIX, socket.SOCK_\(kind))
            s.bind(words[place + 1])
            if s.type == socket.SOCK_STREAM: s.listen(64)
            if s.fileno() == 3: os.set_inheritable(3, True)
            else: os.dup2(s.fileno(), 3)
            del words[place:place + 2]
            os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="\(count)")
            os.execv(words[0], words)
            """
        return "exec python3 -c '\(script)' "
    }

    @Test func `serves at a socket that is handed over, and leaves it`() throws {
        let directory = try TemporaryDirectory()
        let broker = try TestBroker(preparation: Self.handingOver(), in: directory)
        #expect(try broker.stats()[.requests] == 0)
        // The processes that it starts do not have it.
        let own = Set(broker.status.openFiles.filter { $0.hasPrefix("socket:") })
        let shared = own.filter { file in
            let holders = try? broker.allChildren().count { $0.openFiles.contains(file) }
            return holders ?? 0 > 0
        }
        #expect(shared.isEmpty)
        #expect(try broker.stop() == .status(0))
        #expect(FileManager.default.fileExists(atPath: directory.file("s")))
    }

    @Test(arguments: [("DGRAM", 1, "something else"), ("STREAM", 2, "2 sockets")])
    func `another socket is refused`(kind: String, count: Int, message: String) throws {
        let directory = try TemporaryDirectory()
        #expect(throws: (any Error).self) {
            try TestBroker(preparation: Self.handingOver(kind, count: count), in: directory)
        }
        let log = text(ofFile: directory.file("log"))
        #expect(log.contains(message), "\(log)")
    }

    @Test func `a socket for another process is not taken`() throws {
        let broker = try TestBroker(environment: ["LISTEN_PID=1", "LISTEN_FDS=1"])
        #expect(try broker.stats()[.requests] == 0)
    }

    @Test func `reports that it is ready, that it lives, and that it ends`() throws {
        let directory = try TemporaryDirectory()
        let notifications = try Notifications(in: directory)
        let broker = try TestBroker(
            environment: ["NOTIFY_SOCKET=\(notifications.path)", "WATCHDOG_USEC=200000"], in: directory)
        #expect(notifications.next() == "READY=1")
        for _ in 0..<5 { #expect(notifications.next() == "WATCHDOG=1") }
        #expect(try broker.stop() == .status(0))
        var last = notifications.next()
        while last == "WATCHDOG=1" { last = notifications.next() }
        #expect(last == "STOPPING=1")
    }

    @Test func `reports that it reads its settings again, and that it has`() throws {
        let directory = try TemporaryDirectory()
        let notifications = try Notifications(in: directory)
        let broker = try TestBroker(environment: ["NOTIFY_SOCKET=\(notifications.path)"], in: directory)
        #expect(notifications.next() == "READY=1")
        broker.signal(SIGHUP)
        let lines = try #require(notifications.next()).split(separator: "\n")
        #expect(lines.first == "RELOADING=1")
        // The time of the monotonic clock in microseconds.
        let microseconds = try #require(lines.last?.split(separator: "=").last.flatMap { Int64($0) })
        let now = Instant.now.nanoseconds / 1000
        #expect((now - 60_000_000...now).contains(microseconds))
        #expect(notifications.next() == "READY=1")
        _ = try broker.stop()
    }

    @Test func `a watchdog for another process is not served`() throws {
        let directory = try TemporaryDirectory()
        let notifications = try Notifications(in: directory)
        let broker = try TestBroker(
            environment: ["NOTIFY_SOCKET=\(notifications.path)", "WATCHDOG_USEC=1000", "WATCHDOG_PID=1"],
            in: directory)
        #expect(notifications.next() == "READY=1")
        _ = try broker.stop()
        #expect(notifications.next() == "STOPPING=1")
    }
}
