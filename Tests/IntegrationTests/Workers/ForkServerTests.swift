/// The fork server's replacement. Requests do not wait for it.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ForkServerTests {
    private let setting: Setting
    private let client: RawClient
    private let picture = TestPicture.gradient(width: 40, height: 30)
    private var broker: TestBroker { setting.broker }

    init() throws {
        let file = picture.png
        setting = try Setting { _ in .ok(file, contentType: "image/png") }
        client = try setting.client()
        try broker.waitUntilIdle()
    }

    private func check(_ path: String) throws {
        #expect(try client.picture(of: setting.url(path)) == picture.premultiplied)
    }

    /// The fork server. The broker replaces one that is not ready in time at its start.
    private func server() throws -> ProcessStatus {
        try eventually("there is a fork server") { broker.forkServer != nil }
        return try #require(broker.forkServer)
    }

    /// Sends workers a signal until there is another fork server.
    private func replace(_ first: ProcessStatus, signalling signal: Int32) throws {
        try eventually("there is another fork server") {
            // A fork server that lived less than a second is replaced when the next worker starts. While it starts, it
            // counts as a worker, so that there seems to be one too many. The crash of a worker that is not ready does
            // not count, because it has decoded nothing.
            if broker.hasFullCrew, let worker = broker.workers(.decode).first { broker.signal(worker, signal) }
            return broker.forkServer.map { $0 != first } ?? false
        }
        try broker.waitUntilIdle()
    }

    @Test func killedServerIsReplaced() throws {
        let first = try server()
        broker.signal(first, SIGKILL)
        try check("/without")
        try replace(first, signalling: SIGKILL)
        try check("/with")
    }

    /// A crash may have revealed the address space layout that forked workers share.
    @Test func serverIsReplacedAfterAWorkerCrash() throws {
        let first = try server()
        try replace(first, signalling: SIGSEGV)
        try check("/again")
    }
}
