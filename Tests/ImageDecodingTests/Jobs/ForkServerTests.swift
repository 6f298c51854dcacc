import IPCProtocol
import IPCTransport
import LinuxSystem
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding

/// Workers that a fork server forks: they equal other workers and outlive the server.
@Suite(.timeLimit(.minutes(10))) struct ForkServerTests {
    private static let isRoot = CurrentProcess.uid == 0
    private static let stranger = 65_533

    private let server: ChildProcess
    private let channel: FrameChannel

    init() throws {
        (server, channel) = try Self.start()
    }

    private static func start(_ arguments: [String] = []) throws -> (ChildProcess, FrameChannel) {
        let (ours, theirs) = try UnixSocket.pair()
        let server = try ChildProcess(
            path: BuiltProducts.folder + "/imgworker", arguments: ["--strict-sandbox", "--fork-server"] + arguments,
            control: theirs)
        let channel = FrameChannel(socket: ours)
        #expect(try channel.receiveMessage(ForkReport.self)?.0 == .ready)
        return (server, channel)
    }

    private func fork(by server: FrameChannel? = nil) throws -> TestWorker {
        let channel = server ?? channel
        let (ours, theirs) = try UnixSocket.pair()
        try channel.sendMessage(ForkOrder.fork, descriptors: [theirs])
        guard case .forked(let pid)? = try channel.receiveMessage(ForkReport.self)?.0 else {
            throw WireError(.internal, "no worker")
        }
        return try TestWorker(try ChildProcess(adopting: pid), socket: ours)
    }

    private func decode(_ picture: TestPicture, on worker: TestWorker) throws {
        let job = DecodeJob(id: 7, transform: Transform(pixelFormat: .bgra8))
        let (_, result, pixels) = try worker.run(job, try memoryFile(picture.png))
        #expect(result == DecodeResult(bytes: picture.geometry.bytes))
        #expect(try contents(of: pixels) == picture.premultiplied.bgra.bytes)
    }

    /// `TestWorker` checks that the worker is confined.
    @Test(.enabled(if: CurrentProcess.uid == 0, "only root sees the descriptors of a process that nobody may trace"))
    func forkedWorkersWork() throws {
        let picture = TestPicture.gradient(width: 90, height: 50, transparent: true)
        let workers = try (0..<3).map { _ in try fork() }
        #expect(Set(workers.map(\.pid)).count == 3)
        for worker in workers {
            try decode(picture, on: worker)
            let status = ProcessStatus(pid: worker.pid)
            #expect(status.name == "imgworker")
            // Only stdin, stdout, stderr and the worker's own socket remain, without descriptors of the server or the
            // job.
            try eventually("four descriptors") { status.openFiles.count == 4 }
        }
        #expect(ProcessStatus(pid: server.pid).name == "imgworker-fork")
        #expect(workers[0].build == (try TestWorker().build))
    }

    /// The warm-up completes one-time initialization: the first job causes no more page faults than the second.
    ///
    /// What the warm-up leaves out, it leaves out in every worker. On a busy machine the kernel takes pages from some, so
    /// the best of five is compared, and 12 pages are allowed: 9 were seen beside other tests, 20 where a receive buffer was
    /// left out.
    @Test(.enabled(if: CurrentProcess.uid == 0, "only root sees the descriptors of a process that nobody may trace"))
    func firstJobCausesNoMoreFaultsThanTheSecond() throws {
        var surpluses: [Int] = []
        repeat {
            let worker = try fork()
            let status = ProcessStatus(pid: worker.pid)
            try eventually("the warm-up is over") { status.openFiles.count == 4 && status.state == "S" }
            let faults = try (0..<2).map { _ in
                let before = try #require(status.minorFaults)
                try decode(.gradient(width: 90, height: 50, transparent: true), on: worker)
                return try #require(status.minorFaults) - before
            }
            surpluses.append(faults[0] - faults[1])
        } while surpluses.last! > 12 && surpluses.count < 5
        #expect(surpluses.min()! <= 12, "\(surpluses)")
    }

    /// The kernel limits the descriptors in flight per user, so the warm-up may be unable to send any.
    @Test(.enabled("other users can be had, and python3 is there") { isRoot && Pillow.isInstalled })
    func descriptorsInFlightDoNotBlockAWorker() throws {
        let script = """
            import os, socket
            os.setgroups([]); os.setgid(\(Self.stranger)); os.setuid(\(Self.stranger))
            ours, theirs = socket.socketpair()
            for _ in range(20): socket.send_fds(ours, [b"x"], [ours.fileno()] * 10)
            os.write(3, b"x")
            os.read(3, 1)
            """
        let (ours, theirs) = try UnixSocket.pair()
        let holder = try ChildProcess(path: "/usr/bin/python3", arguments: ["-c", script], control: theirs)
        defer {
            holder.send(SignalNumber.kill)
            _ = holder.waitForExit(milliseconds: 60_000)
        }
        #expect(FrameChannel(socket: ours).waitUntilReadable(milliseconds: 60_000))
        let user = ["--uid", "\(Self.stranger)", "--gid", "\(Self.stranger)"]
        let (server, channel) = try Self.start(user)
        let worker = try fork(by: channel)
        try eventually("the warm-up is over") { ProcessStatus(pid: worker.pid).openFiles.count == 4 }
        try decode(.gradient(width: 20, height: 20), on: worker)
        channel.endSending()
        #expect(server.waitForExit(milliseconds: 60_000) == .status(0))
    }

    @Test func workersOutliveTheirServer() throws {
        let worker = try fork()
        server.send(SignalNumber.kill)
        #expect(server.waitForExit(milliseconds: 60_000) == .signal(SignalNumber.kill))
        // The server's socket is closed although a child of it is alive.
        #expect(try channel.receiveMessage(ForkReport.self) == nil)
        try decode(.gradient(width: 20, height: 20), on: worker)
    }

    @Test func endsWithItsSocket() throws {
        _ = try fork()
        channel.endSending()
        #expect(server.waitForExit(milliseconds: 60_000) == .status(0))
    }

    /// Only child processes can be adopted.
    @Test func otherProcessesAreNotAdopted() {
        #expect(throws: SystemError.self) { try ChildProcess(adopting: 1) }
    }
}
