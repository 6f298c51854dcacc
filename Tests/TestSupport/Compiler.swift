internal import LinuxSystem
import SystemValues

/// The C compiler, for libraries that tests preload and programs that start others: they must not link Swift's
/// libraries.
package enum Compiler {
    /// Compiles the C file at `source`, a path within the package, to a shared library at `path`.
    ///
    /// - Throws: `TestFailure`; `SystemError` when there is no compiler.
    package static func makeLibrary(_ path: String, of source: String) throws {
        try run(["-shared", "-fPIC", "-o", path, BuiltProducts.package + "/" + source])
    }

    /// Compiles the C file at `source`, a path within the package, to a program at `path`.
    ///
    /// - Throws: `TestFailure`; `SystemError` when there is no compiler.
    package static func makeProgram(_ path: String, of source: String) throws {
        try run(["-o", path, BuiltProducts.package + "/" + source])
    }

    private static func run(_ arguments: [String]) throws {
        // Not Foundation's `Process`, which needs a thread of a pool that tests keep busy.
        let (_, control) = try UnixSocket.pair()
        let compiler = try ChildProcess(
            path: "/usr/bin/env", arguments: ["cc", "-O2"] + arguments,
            environment: ["PATH=/usr/local/bin:/usr/bin:/bin"],
            control: control)
        guard compiler.waitForExit(milliseconds: 60_000) == .status(0) else {
            throw TestFailure("the C compiler has failed: \(arguments)")
        }
    }
}
