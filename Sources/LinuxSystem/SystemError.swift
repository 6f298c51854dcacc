internal import Glibc

/// A failed system call and its error.
public struct SystemError: Error, Equatable, CustomStringConvertible {
    /// The call's name, as in its manual page.
    public let call: String
    /// The error number (`errno`).
    public let code: Int32

    /// The error of a failed `call`; without a `code`, the calling thread's present error number.
    package init(_ call: String, code: Int32 = lastErrorNumber()) {
        self.call = call
        self.code = code
    }

    /// The call and the system's message: "open: No such file or directory".
    public var description: String { "\(call): \(sentence)" }
}

/// Repeats `body` while a signal interrupts it, and throws the error of `call` when it returns -1.
@discardableResult
package func retrying<Result: SignedInteger>(_ call: String, _ body: () -> Result) throws(SystemError) -> Result {
    while true {
        let result = body()
        if result != -1 { return result }
        if lastErrorNumber() != EINTR { throw SystemError(call) }
    }
}

/// Repeats `body` as `retrying` does; nil when the call fails with `code`.
func retrying<Result: SignedInteger>(
    _ call: String, nilFor code: Int32, _ body: () -> Result
) throws(SystemError) -> Result? {
    do { return try retrying(call, body) } catch  where error.code == code { return nil }
}

/// The calling thread's `errno`.
package func lastErrorNumber() -> Int32 { errno }

extension SystemError {
    package static var brokenPipe: Int32 { EPIPE }
    package static var outOfMemory: Int32 { ENOMEM }
    package static var accessDenied: Int32 { EACCES }
    package static var connectionRefused: Int32 { ECONNREFUSED }
    package static var connectionReset: Int32 { ECONNRESET }
    package static var addressInUse: Int32 { EADDRINUSE }
    package static var tooManyOpenFiles: Int32 { EMFILE }
    package static var tooManyOpenFilesInSystem: Int32 { ENFILE }
    /// `ETOOMANYREFS`: too many descriptors are in flight, sent and not received.
    package static var tooManyReferences: Int32 { ETOOMANYREFS }
    /// `ENOBUFS`: the kernel lacks memory for a message.
    package static var noBufferSpace: Int32 { ENOBUFS }
    package static var busy: Int32 { EBUSY }
    /// `EBADF`: the descriptor does not permit it.
    package static var badDescriptor: Int32 { EBADF }
    package static var invalidArgument: Int32 { EINVAL }
}
