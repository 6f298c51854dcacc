/// Counts the heap allocations of one process, which is started with `environment`.
struct AllocationCounter {
    let directory: TemporaryDirectory
    private let library: String
    private let counts: String

    init() throws {
        directory = try TemporaryDirectory()
        (library, counts) = (directory.file("counter.so"), directory.file("counts"))
        try Compiler.makeLibrary(library, of: "Tests/AllocationCounter/AllocationCounter.c")
    }

    var environment: [String] { ["LD_PRELOAD=\(library)", "ALLOCATION_COUNT=\(counts)"] }

    func count() throws -> Int {
        let file = try FileHandle(forReadingFrom: URL(filePath: counts))
        let bytes = try #require(try file.read(upToCount: 8))
        let count = bytes.reversed().reduce(0) { $0 << 8 | Int($1) }
        try #require(count > 0, "it counts")
        return count
    }
}
