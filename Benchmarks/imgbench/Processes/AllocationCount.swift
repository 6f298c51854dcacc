import Foundation

/// The number of heap allocations of a process, counted in it by a preloaded library.
struct AllocationCount {
    /// The environment variables that the process needs.
    let environment: [String: String]
    private let counts: URL

    /// Compiles the library, which the tests also use, into `folder`.
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

    /// Reads the number of allocations so far.
    func read() throws -> Int {
        let file = try FileHandle(forReadingFrom: counts)
        let bytes = try file.read(upToCount: 8) ?? Data()
        return bytes.reversed().reduce(0) { $0 << 8 | Int($1) }
    }
}
