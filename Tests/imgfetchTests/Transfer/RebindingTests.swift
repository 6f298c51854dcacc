/// Names whose addresses change between look-ups (DNS rebinding). The address that is checked is the one that is
/// connected to, each time.
@Suite(.timeLimit(.minutes(10))) struct RebindingTests {
    private let directory: TemporaryDirectory
    private let library: String

    init() throws {
        directory = try TemporaryDirectory()
        library = directory.file("names.so")
        try Compiler.makeLibrary(library, of: "Tests/NameShim/NameShim.c")
    }

    /// A worker that resolves names under ".rebind.test" to these addresses, one after the other.
    private func worker(answers: String...) throws -> FetchWorker {
        let names = answers.joined(separator: ";")
        return try FetchWorker(
            allowing: ["127.0.0.1"], environment: ["LD_PRELOAD=\(library)", "NAME_ANSWERS=\(names)"])
    }

    @Test func `a name is checked again at each look-up`() throws {
        let hidden = try TestOrigin(address: "127.0.0.2") { _ in .ok([2]) }
        let origin = try TestOrigin { request in
            // Another port makes it another server, whose name is resolved again.
            request.path == "/a" ? .redirect(to: hidden.url("/a", host: "a.rebind.test")) : .ok([1])
        }
        let worker = try worker(answers: "127.0.0.1", "127.0.0.2")
        let run = try worker.run(origin.url("/a", host: "a.rebind.test"))
        #expect(origin.requests.map(\.path) == ["/a"])
        run.expect(.forbiddenAddress, naming: "127.0.0.2")
        #expect(hidden.connectionsAccepted == 0)
        // When the answer is a permitted address again, so is the connection: no verdict is remembered by name.
        let later = try self.worker(answers: "127.0.0.2", "127.0.0.1")
        #expect(try later.run(hidden.url("/a", host: "b.rebind.test")).error?.code == .forbiddenAddress)
        #expect(try later.run(origin.url("/b", host: "b.rebind.test")).body == [1])
        #expect(hidden.connectionsAccepted == 0)
    }

    @Test(arguments: ["127.0.0.2,127.0.0.1", "::1,127.0.0.2,127.0.0.1", "10.0.0.1,169.254.169.254,127.0.0.1"])
    func `every address of a name is checked separately`(addresses: String) throws {
        let hidden = try TestOrigin(address: "127.0.0.2") { _ in .ok([2]) }
        let origin = try TestOrigin { _ in .ok([1]) }
        let run = try worker(answers: addresses).run(origin.url("/a", host: "c.rebind.test"))
        #expect(run.result?.remoteAddress == "127.0.0.1")
        #expect(hidden.connectionsAccepted == 0)
    }

    @Test func `a name with forbidden addresses alone is refused without a packet`() throws {
        let origin = try TestOrigin(address: "127.0.0.2") { _ in .ok([1]) }
        let run = try worker(answers: "127.0.0.2,10.1.2.3,::ffff:127.0.0.2,64:ff9b::7f00:2")
            .run(origin.url("/a", host: "d.rebind.test"))
        #expect(run.error?.code == .forbiddenAddress)
        #expect(origin.connectionsAccepted == 0)
    }
}
