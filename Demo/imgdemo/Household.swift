import Foundation
import LinuxSystem
import Synchronization
import SystemValues

/// The processes and files that the demonstration has started and made. However it ends, by itself, by Ctrl-C or
/// because it takes too long, nothing of them stays.
final class Household: Sendable {
    /// A directory for sockets and files.
    let directory: String

    private struct State {
        var children: [ChildProcess] = []
        var hasEnded = false
    }

    private static let patience = 180
    private static let current = Mutex<Household?>(nil)

    private let state: Mutex<State>

    /// Makes the directory, and begins to listen for signals. Must come before any thread is started.
    init() throws {
        let name = "imgdemo-\(CurrentProcess.pid)-\(UInt32.random(in: 0...UInt32.max))"
        let path = FileManager.default.temporaryDirectory.appending(path: name).path
        // Others may pass through it, but not look around: a broker that root starts has its workers run as nobody, and
        // one of them owns the cache directory in here.
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o711])
        directory = path
        state = Mutex(State())
        Self.current.withLock { $0 = self }

        // Blocked here, before there are threads; read on one thread alone.
        nonisolated(unsafe) let signals = try Signals([
            SignalNumber.interrupt, SignalNumber.terminate, SignalNumber.hangup,
        ])
        let watch = Thread { [self] in
            let deadline = Instant.now.adding(milliseconds: Self.patience * 1000)
            while Instant.now < deadline {
                if let signal = unsafe signals.next() {
                    CurrentProcess.writeToStandardError("\nimgdemo: ended by a signal\n")
                    CurrentProcess.exit(end(status: 128 + signal))
                }
                usleep(50_000)
            }
            CurrentProcess.writeToStandardError("imgdemo: took longer than \(Self.patience) s\n")
            CurrentProcess.exit(end(status: 1))
        }
        watch.start()
    }

    /// Starts a process that ends with this one.
    func start(_ path: String, _ arguments: [String], control: FileDescriptor) throws -> ChildProcess {
        try state.withLock { state in
            if state.hasEnded { throw DemoFailure("it is ending") }
            let child = try ChildProcess(path: path, arguments: arguments, control: control)
            state.children.append(child)
            return child
        }
    }

    /// Waits for a process that was asked to end; whether it did, and well.
    func waitForEnd(of child: ChildProcess, milliseconds: Int) -> Bool {
        guard let exit = child.waitForExit(milliseconds: milliseconds) else { return false }
        let pid = child.pid
        state.withLock { state in state.children.removeAll { $0.pid == pid } }
        return exit == .status(0)
    }

    /// Ends what still runs, removes the files, and returns the exit status to end with.
    func end(status: Int32) -> Int32 {
        state.withLock { state in
            if state.hasEnded { return }
            state.hasEnded = true
            for child in state.children { child.send(SignalNumber.terminate) }
            for child in state.children where child.waitForExit(milliseconds: 6000) == nil {
                child.send(SignalNumber.kill)
                _ = child.waitForExit(milliseconds: 1000)
            }
            try? FileManager.default.removeItem(atPath: directory)
        }
        return status
    }

    /// Does not return while the process is ending.
    static func waitIfEnding() {
        guard let household = current.withLock({ $0 }), household.state.withLock({ $0.hasEnded }) else { return }
        sleep(10)
    }

    /// Ends the household there is, if there is one.
    static func endCurrent(status: Int32) -> Int32 {
        current.withLock { $0 }?.end(status: status) ?? status
    }
}
