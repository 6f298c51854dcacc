import IPCProtocol
import Testing

@testable import BrokerCore

/// The table of workers in the statistics.
struct WorkerTableTests {
    private var world: StrictWorld = {
        var limits = BrokerLimits()
        limits.workers = 2
        let world = StrictWorld(limits)
        return world
    }()

    private func row(_ kind: WorkerKind) -> [StatsReport.Worker] {
        world.state.report.workerProcesses.filter { $0.kind == kind.name }
    }

    @Test func `a worker is starting, idle, busy and ending`() throws {
        #expect(row(.decode).map(\.state) == ["starting", "starting", "starting"])
        world.readyAll()
        #expect(row(.decode).map(\.state) == ["idle", "idle", "idle"])
        #expect(row(.decode).allSatisfy { $0.jobs == 0 && $0.milliseconds == nil && $0.origin == nil && $0.uid == nil })

        let client = world.connect()
        world.get(client, id: 1, "a")
        world.happen(.timePassed, after: 70)
        let fetch = try #require(row(.fetch).first)
        #expect(fetch.state == "busy" && fetch.jobs == 1 && fetch.milliseconds == 70)
        #expect(fetch.origin?.hasPrefix("http") == true && fetch.uid != nil)
        #expect(world.state.report.workerProcesses.first == fetch, "the longest job is first")

        try world.finishFetch(content: 1)
        world.happen(.timePassed, after: 30)
        let decode = try #require(row(.decode).first)
        #expect(decode.state == "busy" && decode.jobs == 1 && decode.milliseconds == 30)
        #expect(decode.origin == fetch.origin && decode.uid == fetch.uid)
        #expect(row(.fetch).allSatisfy { $0.state == "idle" })

        let job = try #require(world.decodes.keys.first)
        let worker = try #require(world.decodes[job]?.worker)
        world.happen(.timePassed, after: 10_000_000)
        #expect(world.workers[worker]?.state == .dying)
        #expect(row(.decode).contains { $0.state == "ending" })
    }

    /// Each row's jobs are those of the gauge.
    @Test func `the jobs add up`() {
        world.readyAll()
        let client = world.connect()
        for number in 0..<40 { world.get(client, id: number, "image\(number)") }
        let report = world.state.report
        #expect(report.workerProcesses.count <= StatsReport.mostRows)
        #expect(report.workerProcesses.reduce(0) { $0 + $1.jobs } == report[.running])
        #expect(report[.running] > 0)
    }
}
