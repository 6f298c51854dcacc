import Foundation
import Glibc
import SystemValues

/// Programs that a test places in a folder of its own.
///
/// This process never opens them for writing. A child that another test has just forked would hold such a descriptor
/// until it executes its program, and meanwhile starting the file fails: "text file busy".
package enum Programs {
    /// Places programs of this package in a folder, under their own names, each replacing a file there.
    package static func install(_ names: [String], in folder: String) throws {
        for name in names {
            let (built, own) = (BuiltProducts.folder + "/" + name, folder + "/" + name)
            // A broker looks for its workers where its own file lies, so a symbolic link would lead it to the real
            // ones.
            _ = unsafe unlink(own)
            if unsafe link(built, own) != 0 { try copy(built, to: own) }
        }
    }

    /// Writes a program, or what only looks like one, replacing a file there.
    package static func write(_ text: String, to path: String) throws {
        let directory = try TemporaryDirectory()
        try Data(text.utf8).write(to: URL(filePath: directory.file("text")))
        try copy(directory.file("text"), to: path)
    }

    /// Copies in another process, so that only that one has the copy open for writing.
    private static func copy(_ source: String, to destination: String) throws {
        let result = try run("/usr/bin/install", ["-m", "755", source, destination])
        guard result.exit == .status(0) else { throw TestFailure(result.errors) }
    }
}
