internal import CLinux
internal import Glibc

/// A system call that failed: which one, and why.
public struct SystemError: Error, Equatable, CustomStringConvertible {
    /// The call's name, as in its manual page.
    public let call: String
    /// The error number (`errno`) it left.
    public let code: Int32

    /// Describes a failed `call`; without a `code`, by the calling thread's present error number.
    package init(_ call: String, code: Int32 = lastErrorNumber()) {
        self.call = call
        self.code = code
    }

    /// The call and the system's own sentence about the error: "open: No such file or directory".
    public var description: String {
        "\(call): \(unsafe String(cString: strerror(code)))"
    }
}

/// Repeats `body` while a signal interrupts it; -1 is thrown as the error of `call`.
@discardableResult
package func retrying<Result: SignedInteger>(_ call: String, _ body: () -> Result) throws(SystemError) -> Result {
    while true {
        let result = body()
        if result != -1 { return result }
        if lastErrorNumber() != EINTR { throw SystemError(call) }
    }
}

/// The calling thread's `errno`, which Swift cannot import: it is a macro.
package func lastErrorNumber() -> Int32 {
    clinux_errno()
}

extension SystemError {
    /// `EPIPE`: the other end has closed.
    package static var brokenPipe: Int32 { EPIPE }
    /// There is no memory left.
    package static var outOfMemory: Int32 { ENOMEM }
    /// `ENOENT`: there is no such file.
    package static var noEntry: Int32 { ENOENT }
    /// `ECONNREFUSED`: nobody listens there.
    package static var connectionRefused: Int32 { ECONNREFUSED }
    /// `EADDRINUSE`: the path exists.
    package static var addressInUse: Int32 { EADDRINUSE }
    /// `EMFILE`: this process may open no more descriptors.
    package static var tooManyOpenFiles: Int32 { EMFILE }
    /// `ENFILE`: nor may any other.
    package static var tooManyOpenFilesInSystem: Int32 { ENFILE }
    /// `ETOOMANYREFS`: too many descriptors are on their way, sent and not received.
    package static var tooManyReferences: Int32 { ETOOMANYREFS }
    /// `EBUSY`: in use.
    package static var busy: Int32 { EBUSY }
    /// `EINVAL`: an argument is wrong.
    package static var invalidArgument: Int32 { EINVAL }
}
