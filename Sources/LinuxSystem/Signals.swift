internal import CLinux
internal import Glibc

/// Signals as readable events instead of interruptions.
public final class Signals {
    /// Ask the process to end in good order.
    public static let terminate = SIGTERM
    /// Ctrl-C.
    public static let interrupt = SIGINT
    /// The terminal has gone.
    public static let hangup = SIGHUP
    /// Something was written where nobody reads.
    public static let brokenPipe = SIGPIPE
    /// Cannot be caught.
    public static let kill = SIGKILL

    /// A system call that a filter ends the process for.
    public static let badSystemCall = SIGSYS
    /// A limit of processor time (RLIMIT_CPU) is used up.
    public static let processorTime = SIGXCPU
    /// What the kernel, or the C library, ends a process with that has gone wrong.
    public static let faults: Set<Int32> = [SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGPIPE, SIGXFSZ]

    /// The signalfd, to be watched for reading.
    public let descriptor: FileDescriptor

    /// Blocks `signals` in this process and reports them through the descriptor. Must run before any thread is started.
    ///
    /// - Throws: `SystemError` of `signalfd`.
    public init(_ signals: [Int32]) throws(SystemError) {
        descriptor = FileDescriptor(
            owning: try retrying("signalfd") { unsafe clinux_signalfd(signals, signals.count) })
    }

    /// The next signal that came; nil when none waits.
    public func next() -> Int32? {
        let signal = clinux_signalfd_next(descriptor.raw)
        return signal == 0 ? nil : signal
    }
}
