@Suite(.timeLimit(.minutes(10)), .enabled(if: TLSServer.isPossible, "needs openssl and python3"))
struct CertificateTests {
    @Test func `permission for an invalid certificate holds for its own job only`() throws {
        let server = try TLSServer()
        let worker = try FetchWorker()
        let trusting = FetchJob(id: 0, url: server.url, maxBytes: 100, allowInvalidCertificates: true)
        #expect(try worker.run(server.url).error?.code == .tlsFailed)
        let first = try worker.run(trusting)
        #expect(first.result != nil)
        // The connection still exists and could serve, as it does for the next job that trusts it.
        #expect(try worker.run(server.url).error?.code == .tlsFailed)
        #expect(try worker.run(trusting).text == first.text)
        #expect(try worker.run(server.url).error?.code == .tlsFailed)
    }

    @Test func `a root certificate of the settings is trusted, another is not`() throws {
        let (server, other) = (try TLSServer(), try TLSServer())
        let worker = try FetchWorker(private: FetchPrivate(roots: text(ofFile: server.certificate)))
        let run = try worker.run(server.url)
        #expect(run.result != nil, "\(String(describing: run.error))")
        #expect(try worker.run(other.url).error?.code == .tlsFailed)
    }

    @Test(.enabled(if: geteuid() == 0, "needs a mount namespace"))
    func `the system's root certificates stay trusted`() throws {
        let (ofSystem, own) = (try TLSServer(), try TLSServer())
        let worker = try FetchWorker(
            private: FetchPrivate(roots: text(ofFile: own.certificate)), trustingRoot: ofSystem.certificate)
        for server in [ofSystem, own] {
            let run = try worker.run(server.url)
            #expect(run.result != nil, "\(String(describing: run.error))")
        }
    }
}
