import WorkerRuntime

@testable import imgfetch

struct FetchProgramTests {
    @Test func `options are read`() throws {
        var program = FetchProgram()
        let options = try WorkerOptions(
            [
                "--parent", "12", "--uid", "3", "--gid", "4", "--allow-address", "10.0.0.0/8", "--allow-address", "::1",
                "--log-level", "debug", "--private",
            ], for: &program)
        #expect(program.hasPrivate)
        #expect(options.parent == 12 && options.logLevel == .debug)
        #expect(options.user == WorkerOptions.User(uid: 3, gid: 4))
        #expect(program.allowedAddresses.map(\.description) == ["10.0.0.0/8", "::1/128"])
        #expect(try WorkerOptions([], for: &program).user == nil)
    }

    @Test(arguments: [
        ["--parent"], ["--parent", "x"], ["--uid", "1"], ["--gid", "1"], ["--allow-address", "a"],
        ["--log-level", "loud"], ["--private=x"], ["--proxy", "http://a"],
        ["-v"], ["x"],
    ])
    func `wrong usage is an error`(arguments: [String]) {
        var program = FetchProgram()
        #expect(throws: UsageError.self) { try WorkerOptions(arguments, for: &program) }
    }

    /// libcurl's resolver has threads, which a fork does not copy.
    @Test func `it cannot be a fork server`() {
        #expect(WorkerRuntime.run(FetchProgram(), arguments: ["--fork-server"]) == 2)
    }
}
