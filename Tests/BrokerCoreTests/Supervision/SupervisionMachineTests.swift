import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// `Supervision` in isolation.
struct SupervisionMachineTests {
    private let now = Instant(nanoseconds: 1_000_000_000)
    private let job = JobID(number: 1)
    private let strong = SandboxReport(seccomp: true, landlock: 7)

    /// Returns a machine with one worker and one spare of each kind, all ready, and its decode workers, of which the
    /// first may run `job`.
    private func ready(isRunning: Bool = false) throws -> (Supervision, [WorkerID]) {
        var limits = BrokerLimits()
        limits.workers = 1
        var supervision = Supervision(limits: limits)
        let started = supervision.startMissing(at: now)
        #expect(started.map(\.kind) == [.fetch, .fetch, .decode, .decode])
        for (_, worker) in started { #expect(supervision.becameReady(worker, strong) == .accepted) }
        let decoders = started.filter { $0.kind == .decode }.map(\.worker)
        if isRunning { supervision.assign(job, to: decoders[0]) }
        return (supervision, decoders)
    }

    private func exit(_ supervision: inout Supervision, _ worker: WorkerID, _ exit: WorkerExit) -> Supervision.Exit? {
        supervision.exited(worker, exit, isForgiven: false, isDraining: false, at: now)
    }

    @Test func `a worker is ready once, and only with a sandbox`() {
        var supervision = Supervision(limits: BrokerLimits())
        let workers = supervision.startMissing(at: now).map(\.worker)
        #expect(supervision.becameReady(workers[0], strong) == .accepted)
        #expect(supervision.becameReady(workers[0], strong) == .repeated)
        guard case .refused = supervision.becameReady(workers[1], SandboxReport()) else {
            return complain("an unconfined worker is accepted")
        }
        #expect(supervision.becameReady(WorkerID(number: 99), strong) == .ignored)
        #expect(supervision[workers[1]]?.isReady == false && supervision[workers[0]]?.isReady == true)
    }

    @Test func `a spare gets no job while the pool is busy`() throws {
        var (supervision, decoders) = try ready()
        let worker = try #require(supervision.available(.decode))
        supervision.assign(job, to: worker)
        #expect(supervision.available(.decode) == nil && supervision.isRunning(job, on: worker))
        #expect(supervision.freshest(.decode) == decoders.first { $0 != worker })
        supervision.unassign(job, from: worker)
        #expect(supervision.available(.decode) == worker && supervision.runningJobs(.decode) == 0)
    }

    @Test func `a condemned worker's reports do not count`() throws {
        var (supervision, decoders) = try ready(isRunning: true)
        #expect(supervision.condemn(decoders[0], .cpu, "slow") == true)
        #expect(!supervision.isRunning(job, on: decoders[0]) && supervision.isCondemned(decoders[0]))
        let gone = try #require(exit(&supervision, decoders[0], .ended(.signal(9))))
        #expect(gone.jobs == [job] && gone.death.cause == .cpu && gone.respawnsForkServer == true)
        #expect(supervision.condemn(decoders[0], .cpu, "gone") == false)
    }

    @Test func `a worker killed from outside is replaced at once, and leaves the fork server alone`() throws {
        var (supervision, decoders) = try ready()
        let gone = try #require(exit(&supervision, decoders[0], .ended(.signal(9))))
        #expect(gone.death.cause == .outside && !gone.respawnsForkServer && supervision.restarts == 1)
        #expect(supervision.nextStart(.decode, after: now) == now.adding(milliseconds: 10))
        #expect(supervision.startMissing(at: now.adding(milliseconds: 10)).count == 1)
    }

    @Test func `an exiting worker loses the job that it was not told of`() throws {
        var (supervision, decoders) = try ready(isRunning: true)
        #expect(supervision.foundExiting(decoders[1], before: job, at: now) == nil)
        #expect(supervision.foundExiting(decoders[0], before: job, at: now) == .decode)
        #expect(supervision.available(.decode) == nil || supervision.available(.decode) != decoders[0])
    }

    @Test func `a worker that has grown is retired when it is idle`() throws {
        var (supervision, decoders) = try ready(isRunning: true)
        for bytes in [10 << 20, 200 << 20] { supervision.measured(decoders[0], residentBytes: bytes) }
        #expect(supervision.takeFinished().isEmpty)
        supervision.unassign(job, from: decoders[0])
        #expect(supervision.takeFinished() == [decoders[0]] && supervision.takeFinished().isEmpty)
        let gone = try #require(exit(&supervision, decoders[0], .ended(.status(0))))
        #expect(gone.wasRetired && supervision.restarts == 0)
    }

    @Test func `jobs that other machines do not know break an invariant`() throws {
        let (supervision, decoders) = try ready(isRunning: true)
        #expect(supervision.brokenInvariant(running: [(.decode, [job: decoders[0]])]) == nil)
        #expect(supervision.brokenInvariant(running: [(.decode, [:])]) != nil)
        #expect(supervision.brokenInvariant(running: [(.decode, [job: decoders[1]])]) != nil)
    }
}
