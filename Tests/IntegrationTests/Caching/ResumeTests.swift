import Synchronization

/// A broker on a machine that is suspended and resumes. The suspension is simulated by its clock since boot, which then
/// is ahead of the monotonic one; the kernel's notice, which wakes the broker, is not.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ResumeTests {
    @Test func `nothing that aged in a suspension is served after it`() throws {
        let directory = try TemporaryDirectory()
        let clock = try FileDescriptor.create(at: directory.file("ahead"))
        func setAhead(hours: Int) throws {
            try unsafe withUnsafeBytes(of: Int64(hours * 3_600_000)) { unsafe try clock.write($0, at: 0) }
        }
        try setAhead(hours: 0)
        let versions = Atomic(0)
        let setting = try Setting(
            environment: [try clockShim(in: directory), "BOOT_CLOCK=" + directory.file("ahead")]
        ) { _ in
            png(tile(versions.add(1, ordering: .sequentiallyConsistent).newValue), maxAge: 3600)
        }
        let url = setting.url("/a")
        let keeping = try ImageBroker(path: setting.broker.socketPath, keeping: .init())
        #expect(try keeping.get(url).seed == 1)
        let kept = try keeping.get(url)
        #expect(try keeping.get(url) === kept)

        let client = try setting.client()
        #expect(try client.picture(of: url) == tile(1))

        // The first reply after the suspension shows that the broker has noticed it: no slot is valid any more.
        try setAhead(hours: 2)
        _ = try client.stats()
        let renewed = try keeping.get(url)
        #expect(renewed !== kept)
        #expect(renewed.seed == 2)
        #expect(try keeping.get(url) === keeping.get(url))

        // The first request after the suspension is not answered from memory either.
        try setAhead(hours: 4)
        #expect(try client.picture(of: url) == tile(3))
        #expect(try keeping.get(url).seed == 3)
        // Without a suspension in between, slots and responses last.
        #expect(try client.picture(of: url) == tile(3))
        #expect(versions.load(ordering: .sequentiallyConsistent) == 3)
    }
}
