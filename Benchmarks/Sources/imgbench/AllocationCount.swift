import Foundation

/// How often a process asks for memory, counted in it by a library that is preloaded.
struct AllocationCount {
    /// What the process must find in its environment.
    let environment: [String: String]
    private let counts: URL

    /// Compiles the library, which the tests use too, into `folder`.
    init(in folder: URL) throws {
        let package = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..").standardized
        let source = package.appending(path: "Tests/AllocationCounter/AllocationCounter.c")
        let library = folder.appending(path: "counter.so")
        counts = folder.appending(path: "counts")
        let compiler = try Process.run(
            URL(filePath: "/usr/bin/env"),
            arguments: ["cc", "-shared", "-fPIC", "-O2", "-o", library.path, source.path])
        compiler.waitUntilExit()
        guard compiler.terminationStatus == 0 else { throw Failure("the counter of allocations cannot be compiled") }
        environment = ["LD_PRELOAD": library.path, "ALLOCATION_COUNT": counts.path]
    }

    /// The allocations so far.
    func read() throws -> Int {
        let file = try FileHandle(forReadingFrom: counts)
        let bytes = try file.read(upToCount: 8) ?? Data()
        return bytes.reversed().reduce(0) { $0 << 8 | Int($1) }
    }
}
