package import SystemValues

/// A command line that makes no sense.
package struct UsageError: Error, Equatable, CustomStringConvertible {
    /// The reason, such as "--uid and --gid go together".
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// The arguments of a worker that are still to be read.
package struct WorkerArguments {
    private var rest: ArraySlice<String>
    private var option = ""

    init(_ arguments: some Sequence<String>) { rest = Array(arguments)[...] }

    /// Takes the name of the next option; nil at the end.
    mutating func nextOption() -> String? {
        guard let name = rest.popFirst() else { return nil }
        option = name
        return name
    }

    /// Takes the value of the option whose name was taken last, as `read` understands it: nil for an invalid one.
    package mutating func value<Value>(_ read: (String) -> Value?) throws(UsageError) -> Value {
        guard let text = rest.popFirst() else { throw UsageError("\(option) needs a value") }
        guard let value = read(text) else { throw UsageError("\(option) cannot be \(text)") }
        return value
    }

    /// Takes a whole number within `range` as the value of the option whose name was taken last.
    package mutating func number<Number: FixedWidthInteger>(
        in range: ClosedRange<Number>
    ) throws(UsageError) -> Number {
        try value { Number($0).flatMap { range.contains($0) ? $0 : nil } }
    }
}

/// The options that all workers have.
package struct WorkerOptions: Equatable {
    /// A user and a group by their numbers.
    package struct User: Equatable {
        package var uid: UInt32
        package var gid: UInt32

        package init(uid: UInt32, gid: UInt32) { (self.uid, self.gid) = (uid, gid) }
    }

    /// `--parent`: the process whose death kills this one; nil for none.
    package var parent: Int32?
    /// `--uid` and `--gid`: the user to become; nil to stay the present one.
    package var user: User?
    /// `--largest-file`: the limit of a written file's size, in bytes; nil for none.
    package var largestFile: Int?
    /// `--memory`: the limit of the process's own memory, in bytes; nil for none.
    package var memory: Int?
    /// `--strict-sandbox`: a system call that is not in the filter's table kills the process.
    package var hasStrictSandbox = false
    /// `--fork-server`: the process forks workers instead of being one.
    package var isForkServer = false
    /// `--log-level`: the least grave level that is logged.
    package var logLevel = LogLevel.warning
    /// `--log-format`, `--log-journal` and `--log-full-urls`: how lines are written.
    package var logFormat = LogFormat()
}
