import ImageBrokerClient
import LinuxSystem
import SharedCache
import SystemValues
import TestSupport

/// Runs `imgbroker` with its words.
func imgbroker(_ words: [String], environment: [String] = []) throws -> ProgramResult {
    try run(BuiltProducts.folder + "/imgbroker", words, environment: environment)
}

extension TestBroker {
    /// Runs a command of `imgbroker` that connects to this broker.
    func run(_ words: [String]) throws -> ProgramResult { try imgbroker(words + ["--socket", socketPath]) }
}

extension ProgramResult {
    /// The lines of its standard error.
    var errorLines: [Substring] { errors.split(separator: "\n") }

    /// The exit and the output of a command that has failed; nil when it has succeeded.
    var failure: String? { exit == .status(0) ? nil : "\(self)" }
}

extension BrokerImage {
    /// A copy of its bytes.
    var copiedBytes: [UInt8] { withBytes { unsafe $0.withUnsafeBytes { unsafe Array($0) } } }

    /// The seed of a `tile`.
    var seed: Int { withBytes { unsafe $0.withUnsafeBytes { unsafe Int($0[0]) | Int($0[1]) << 8 } } }
}

/// A memfd with bytes, without seals.
func memoryFile(_ bytes: [UInt8]) throws -> FileDescriptor {
    let file = try WritableBuffer(name: "given").descriptor
    try unsafe bytes.withUnsafeBytes { try unsafe file.write($0, at: 0) }
    return file
}

/// Waits until processes have exited.
func waitForExit(of processes: [ProcessStatus]) throws {
    for process in processes { try eventually("\(process.pid) has exited") { !process.isAlive } }
}
