import Foundation
import Glibc
import LinuxSystem
import TestSupport

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
        let files = FileManager.default
        let (program, own) = (BuiltProducts.folder + "/imgbroker", directory.file("imgbroker"))
        // A copy cannot be started while a child of another test, which was just forked, still has it open for writing.
        if unsafe link(program, own) != 0 { try files.copyItem(atPath: program, toPath: own) }
        for worker in TestBroker.Worker.allCases {
            let addition = additions[worker] ?? Addition()
            let variables = addition.environment.map { "export '\($0)'\n" }.joined()
            let options = addition.options.map { " '\($0)'" }.joined()
            let program = BuiltProducts.folder + "/" + worker.rawValue
            let script = Data("#!/bin/sh\n\(variables)exec \(program) \"$@\"\(options)\n".utf8)
            try script.write(to: URL(filePath: directory.file(worker.rawValue)))
            guard unsafe chmod(directory.file(worker.rawValue), 0o755) == 0 else { throw SystemError("chmod") }
        }
    }
}
