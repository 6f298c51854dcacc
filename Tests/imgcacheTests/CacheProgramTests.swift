import WorkerRuntime

@testable import imgcache

struct CacheProgramTests {
    private let required = ["--directory", "/c", "--disk-limit", "10", "--raster-limit", "20"]

    private func read(_ arguments: [String]) throws -> (WorkerOptions, StoreOptions) {
        var program = CacheProgram()
        return (try WorkerOptions(arguments, for: &program), program.store)
    }

    @Test func validOptions() throws {
        let (options, store) = try read(required)
        #expect((store.maxAge, store.retryInterval) == (7 * 86_400_000, 30_000))
        #expect(options.user == nil)
        let more = required + ["--max-age", "-1", "--parent", "12", "--uid", "3", "--gid", "4", "--log-level", "debug"]
        let (allOptions, allStore) = try read(more)
        #expect(allStore.maxAge == nil)
        #expect(allOptions.user == WorkerOptions.User(uid: 3, gid: 4))
        #expect(allOptions.logLevel == .debug)
        #expect(try read(required + ["--max-age", "-5"]).1.maxAge == nil)
        let directories = ["--extra-directory", "/e", "--extra-directory", "/f"]
        #expect(try read(required + directories).1.extraDirectories == ["/e", "/f"])
        #expect(try read(required + ["--max-age", "0"]).1.maxAge == 0)
    }

    @Test(arguments: [
        ["--uid", "3"], ["--parent"], ["--parent", "0"], ["--gid", "x"], ["12"], ["--help"], ["--max-age", "x"],
        ["--log-level", "loud"], ["--disk-limit", "-1"], ["--directory", ""], ["--extra-directory", ""],
        ["--extra-directory"],
    ])
    func invalidOptions(_ arguments: [String]) {
        #expect(throws: UsageError.self) { try read(required + arguments) }
        #expect(throws: UsageError.self) { try read(Array(required.dropLast(2))) }
    }
}
