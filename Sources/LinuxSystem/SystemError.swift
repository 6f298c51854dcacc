internal import CLinux

/// A system call that failed: which one, and why.
public struct SystemError: Error, Equatable, CustomStringConvertible {
    /// The call's name, as in its manual page.
    public let call: String
    /// The error number (`errno`) it left.
    public let code: Int32

    /// Describes a failed `call`; without a `code`, by the calling thread's present error number.
    public init(_ call: String, code: Int32 = lastErrorNumber()) {
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
public func lastErrorNumber() -> Int32 {
    clinux_errno()
}
