import BrokerHarness
import Foundation
import Synchronization

/// The files and the broker of one demonstration. The files are removed and the broker is stopped when it ends:
/// normally, after an error, by a signal, or by its time limit. Client processes exit at the end of their input.
final class Session: Sendable {
    /// The directory for sockets and files.
    let directory: String
    private let broker = Mutex<pid_t?>(nil)

    /// Creates the directory and starts to handle signals. Must be called before any thread is started.
    init() throws {
        // Other users may pass through the directory but not list it: a broker that root starts runs its workers as
        // nobody, and one of them owns the cache directory in it.
        directory = NSTemporaryDirectory() + "/imgdemo-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o711])
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        for number in [SIGINT, SIGTERM, SIGHUP, SIGALRM] { unsafe sigaddset(&signals, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
        // A client process that exits early is reported as such.
        signal(SIGPIPE, SIG_IGN)
        alarm(180)
        let handled = signals
        Thread.detachNewThread { [self] in
            var (signals, number): (sigset_t, Int32) = (handled, 0)
            unsafe sigwait(&signals, &number)
            let reason = number == SIGALRM ? "took longer than 180 s" : "ended by a signal"
            finish(status: number == SIGALRM ? 1 : 128 + number, message: "\nimgdemo: \(reason)")
        }
    }

    /// Starts a broker that this session stops when it ends.
    func startBroker(_ path: String, _ arguments: [String]) throws -> BrokerProcess {
        try broker.withLock { pid in
            let process = try BrokerProcess(
                path, socketPath: directory + "/imgbroker.sock",
                arguments: arguments + ["--memory-limit", "1G", "--log-level", "warning"])
            pid = process.pid
            return process
        }
    }

    /// Stops the broker of `startBroker` and checks that it shuts down in order.
    func stop(_ process: BrokerProcess) throws {
        guard process.stop(within: 7) else { throw HarnessFailure("the broker did not shut down in order") }
        broker.withLock { $0 = nil }
    }

    /// Stops the broker, removes the files and exits. Only the first call takes effect; others wait for that exit.
    func finish(status: Int32, message: String? = nil) -> Never {
        broker.withLock { pid in
            if let message { FileHandle.standardError.write(Data((message + "\n").utf8)) }
            if let pid, kill(pid, SIGTERM) == 0 {
                // At most 6 s.
                for _ in 0..<600 where waitpid(pid, nil, WNOHANG) == 0 { usleep(10_000) }
                if waitpid(pid, nil, WNOHANG) == 0 { kill(pid, SIGKILL) }
            }
            try? FileManager.default.removeItem(atPath: directory)
            exit(status)
        }
    }
}
