import Glibc
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

/// The time of a shutdown with requests in flight.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct LifecycleTimingTests {
    /// The limit in milliseconds for a shutdown that waits at most four seconds for requests in flight.
    private static let soon = 15_000

    private func isGone(_ processes: [ProcessStatus]) throws {
        for process in processes { try eventually("\(process.pid) has ended") { !process.isAlive } }
    }

    @Test func endsRequestsThatDoNotComplete() throws {
        let (setting, client) = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }.withClient()
        let broker = setting.broker
        let id = try client.get(setting.url("/a"))
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.held == 1 })
        let processes = [broker.status] + broker.status.children
        let took = try milliseconds {
            broker.signal(SIGTERM)
            #expect(try client.answer(to: id).error?.code == .shuttingDown)
            #expect(try broker.waitForExit() == .status(0))
        }
        #expect(took < Self.soon)
        try isGone(processes)
        #expect(broker.directory.names == ["log"])
    }

    @Test func stoppedWorkerDoesNotDelayShutdown() throws {
        let (setting, client) = try Setting(workers: 1, routes: ["/a": png(tile(1))]).withClient()
        try setting.idle()
        try setting.broker.stopAll(.decode)
        let id = try client.get(setting.url("/a"))
        try setting.broker.wait(for: "the decoding is running") { $0[.reservedBytes] > 0 && $0[.running] == 1 }
        let processes = [setting.broker.status] + setting.broker.status.children
        let took = try milliseconds {
            let exit = try setting.broker.stop()
            #expect(exit == .status(0))
        }
        #expect(took < Self.soon)
        #expect(try client.answer(to: id).error?.code == .shuttingDown)
        try isGone(processes)
    }
}
