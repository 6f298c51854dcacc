import Glibc
import LinuxSystem
import LocalOrigin
import TestSupport
import Testing

/// What workers are forked from comes and goes, and nobody waits for it.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ForkServerTests {
    private let setting: Setting
    private let client: RawClient
    private let picture = TestPicture.gradient(width: 40, height: 30)
    private var broker: BrokerProcess { setting.broker }

    init() throws {
        let file = picture.png
        setting = try Setting { _ in .ok(file, contentType: "image/png") }
        client = try setting.client()
        try broker.waitUntilIdle()
    }

    private func check(_ path: String) throws {
        #expect(try client.picture(try client.load(setting.url(path))) == picture.premultiplied)
    }

    /// The fork server. One that is not ready in time when the broker starts is replaced by another.
    private func server() throws -> ProcessStatus {
        try eventually("there is a fork server") { broker.forkServer != nil }
        return try #require(broker.forkServer)
    }

    @Test func replacedWhenItIsKilled() throws {
        let first = try server()
        broker.signal(first, SIGKILL)
        try check("/without")
        // One that has not lasted a second is replaced when the next worker is wanted. At its start a fork server looks like
        // a worker; then there is one too many.
        try eventually("there is another fork server") {
            if broker.hasFullCrew, let worker = broker.workers(.decode).first { broker.signal(worker, SIGKILL) }
            return broker.forkServer.map { $0 != first } ?? false
        }
        try broker.waitUntilIdle()
        try check("/with")
    }

    /// A crash may have told somebody how the memory is laid out that its workers share.
    @Test func replacedWhenAWorkerCrashes() throws {
        let first = try server()
        // One that is not ready yet has met no picture, and is not counted.
        try eventually("there is another fork server") {
            if broker.hasFullCrew, let worker = broker.workers(.decode).first { broker.signal(worker, SIGSEGV) }
            return broker.forkServer.map { $0 != first } ?? false
        }
        try broker.waitUntilIdle()
        try check("/again")
    }

    /// A worker that was forked is as confined as one that was started, and ends with the broker as well.
    @Test func workersEndWithTheBroker() throws {
        _ = try server()
        let processes = try broker.allChildren()
        broker.signal(SIGKILL)
        try eventually("all have ended") { processes.allSatisfy { !$0.isAlive } }
    }
}
