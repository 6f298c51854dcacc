import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// The lifecycle of the cache process, as the broker sees it.
struct CacheProcessTests {
    private func world(_ change: (inout BrokerLimits) -> Void = { _ in }) -> StrictWorld {
        var limits = BrokerLimits()
        limits.usesDisk = true
        change(&limits)
        return StrictWorld(limits)
    }

    private func cache(_ world: StrictWorld) throws -> WorkerID {
        try #require(world.workers.first { $0.value.kind == .cache }?.key)
    }

    private func warnings(_ actions: [Action]) -> [String] {
        actions.compactMap {
            if case .log(let record) = $0, record.level == .warning { record.message } else { nil }
        }
    }

    @Test func `an unconfined cache process is refused like any worker`() throws {
        for sandbox in [nil, SandboxReport(seccomp: true), SandboxReport(landlock: 3)] {
            let world = world()
            let worker = try cache(world)
            world.happen(.workerReady(worker, sandbox))
            #expect(world.workers[worker]?.state == .dying)
            #expect(!world.state.canLookUp || world.state.supervision.available(.cache) == nil)
        }
        let allowed = world { $0.allowsUnsandboxed = true }
        allowed.happen(.workerReady(try cache(allowed), nil))
        #expect(allowed.state.supervision.available(.cache) != nil)
    }

    @Test func `the figures show the weakest of all kinds`() throws {
        let world = world()
        world.readyAll()
        #expect(world.state.report.sandbox == "seccomp+landlock-7")
        world.endWorker(try cache(world), .ended(.signal(9)))
        world.happen(.workerReady(try cache(world), SandboxReport(seccomp: true, landlock: 3)))
        #expect(world.state.report.sandbox == "seccomp+landlock-3")
    }

    @Test func `a cache process that exits with 0 is replaced at once, without a warning`() throws {
        let world = world()
        world.readyAll()
        for _ in 0..<50 {
            let worker = try cache(world)
            world.happen(.timePassed, after: 1000)
            world.endWorker(worker, .ended(.status(0)))
            #expect(warnings(world.lastActions).isEmpty)
            #expect(try cache(world) != worker)
            world.readyAll()
        }
        #expect(world.state.supervision.available(.cache) != nil)
    }

    @Test func `a cache process that exits before it was ready has failed`() throws {
        let world = world()
        world.endWorker(try cache(world), .ended(.status(0)))
        world.endWorker(try cache(world), .ended(.status(0)))
        #expect(!world.workers.values.contains { $0.kind == .cache })
    }

    @Test func `a cache process that exits as soon as it is ready has failed`() throws {
        let world = world()
        for _ in 0..<2 {
            world.readyAll()
            world.endWorker(try cache(world), .ended(.status(0)))
        }
        #expect(!world.workers.values.contains { $0.kind == .cache })
        #expect(world.state.report.workerDeaths[.exit] == 2)
    }

    @Test func `a reason that several processes give is logged once`() throws {
        let world = world()
        world.readyAll()
        let trouble = DiskReport(state: .off, reason: "there is no room for a directory")
        world.happen(.diskReported(trouble))
        #expect(warnings(world.lastActions).count == 1)
        for _ in 0..<3 {
            world.happen(.timePassed, after: 1000)
            world.endWorker(try cache(world), .ended(.status(0)))
            world.readyAll()
            world.happen(.diskReported(trouble))
            #expect(warnings(world.lastActions).isEmpty)
        }
        world.happen(.diskReported(DiskReport(state: .on)))
        world.happen(.diskReported(trouble))
        #expect(warnings(world.lastActions).count == 1)
    }
}
