import Glibc
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

/// A broker under memory pressure. It runs with no other tests beside it, because control groups of version 1 have no pressure
/// of their own: brokers of other tests would notice it, too.
@Suite(.serialized, .timeLimit(.minutes(10)), .enabled(if: ControlGroup.isPossible))
struct MemoryPressureTimingTests {
    /// Other processes of the group wait for memory all the time: what they read displaces what they read before.
    @Test(.enabled("the kernel reports pressure") { CurrentProcess.exists("/proc/pressure/memory") })
    func `a broker in a group that waits for memory shrinks its budget, and grows again`() throws {
        let group = try ControlGroup(memory: 192 << 20)
        let picture = TestPNG.blank(width: 1200, height: 900)
        let origin = try LocalOrigin { .ok(picture + Array($0.path.utf8), contentType: "image/png") }
        defer { origin.stop() }
        let (broker, client) = try TestBroker(preparation: group.entering).withClient()
        // Fills the budget.
        for number in 0..<20 { _ = try client.load(origin.url("/\(number)"), #""delivery":"none""#) }
        // The group may have had to wait already, on a busy machine: from a quarter of the limit, it takes twelve steps of 10 s.
        try eventually("the budget is whole", within: 180) { try broker.stats()[.memoryLimitBytes] == 64 << 20 }
        let before = try broker.stats()
        let file = broker.directory.file("read-all-the-time")
        let reading = "dd if=/dev/zero of=\(file) bs=1M count=600 2>/dev/null; "
        let loop = "while :; do cat \(file) >/dev/null; done"
        let (_, control) = try UnixSocket.pair()
        let readers = try ChildProcess(
            path: "/bin/sh",
            arguments: ["-c", group.entering + reading + String(repeating: loop + " & ", count: 11) + loop],
            control: control)
        func endReaders() {
            // The shells, then the programs that they have started.
            let shells = [ProcessStatus(pid: readers.pid)] + ProcessStatus(pid: readers.pid).children
            let all = shells + shells.flatMap(\.children)
            for process in all { kill(process.pid, SIGKILL) }
            _ = readers.waitForExit(milliseconds: 5000)
        }
        do {
            defer { endReaders() }
            // It goes on serving meanwhile, from the origin and from memory.
            var number = 20
            try broker.wait(for: "the budget shrinks twice") {
                number += 1
                _ = try? client.load(origin.url("/\(number)"), #""delivery":"none""#)
                return $0[.memoryLimitBytes] < 52 << 20
            }
            _ = try client.load(origin.url("/\(number)"), #""delivery":"none""#)
            let after = try broker.stats()
            #expect(after[.evictions] > before[.evictions])
            #expect(after[.networkLoads] == number)
            // Not for a kill.
            #expect(group.kills == 0)
            #expect(after.workerDeaths.isEmpty, "\(after.workerDeaths)")
        }
        let least = try broker.stats()[.memoryLimitBytes]
        try eventually("the budget grows", within: 90) { try broker.stats()[.memoryLimitBytes] > least }
        #expect(try broker.stop() == .status(0))
    }
}
