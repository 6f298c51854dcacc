/// Returns a folder with the broker's program, and links to the others, or to those that are to take their place.
func linkedPrograms(replacing others: [String: String] = [:]) throws -> TemporaryDirectory {
    let folder = try TemporaryDirectory()
    try Programs.install(["imgbroker"], in: folder.path)
    for worker in TestBroker.Worker.allCases.map(\.rawValue) {
        let program = BuiltProducts.folder + "/" + (others[worker] ?? worker)
        try FileManager.default.createSymbolicLink(atPath: folder.file(worker), withDestinationPath: program)
    }
    return folder
}

/// A script that is a worker without work: it sends a report, and lives for 20 s.
func workerScript(sending report: String) -> String {
    let length = String(report.utf8.count, radix: 8)
    let padded = String(repeating: "0", count: 3 - length.count) + length
    return "printf '\\000\\000\\000\\\(padded)%s' '\(report)' >&3; exec sleep 20"
}

/// A folder with the broker's program, and a script in place of each worker that starts the worker as given.
final class ProgramFolder {
    /// What a worker is started with besides the broker's own choice.
    struct Addition {
        /// Variables of its environment, as `NAME=value`.
        var environment: [String] = []
        /// Options that follow those of the broker, and so override them.
        var options: [String] = []
    }

    private let directory: TemporaryDirectory

    var path: String { directory.path }

    init(_ additions: [TestBroker.Worker: Addition]) throws {
        directory = try TemporaryDirectory()
        try Programs.install(["imgbroker"], in: directory.path)
        for worker in TestBroker.Worker.allCases {
            let addition = additions[worker] ?? Addition()
            let variables = addition.environment.map { "export '\($0)'\n" }.joined()
            let options = addition.options.map { " '\($0)'" }.joined()
            let program = BuiltProducts.folder + "/" + worker.rawValue
            let script = "#!/bin/sh\n\(variables)exec \(program) \"$@\"\(options)\n"
            try Programs.write(script, to: directory.file(worker.rawValue))
        }
    }
}
