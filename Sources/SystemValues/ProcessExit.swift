internal import Glibc

/// The way in which a process exited.
package enum ProcessExit: Equatable, Sendable, CustomStringConvertible {
    /// It exited with this status.
    case status(Int32)
    /// This signal killed it.
    case signal(Int32)

    /// The exit in words: "exit status 2", "signal 9 (Killed)".
    package var description: String {
        switch self {
        case .status(let status): "exit status \(status)"
        case .signal(let number): "signal \(number) (\(unsafe String(cString: strsignal(number))))"
        }
    }
}
