/// The numbers of signals, the same on every architecture of Linux that Swift supports.
package enum SignalNumber {
    /// `SIGTERM`: asks the process to shut down.
    package static let terminate: Int32 = 15
    /// `SIGINT`: Ctrl-C.
    package static let interrupt: Int32 = 2
    /// `SIGHUP`: read the settings again.
    package static let hangup: Int32 = 1
    /// `SIGPIPE`: a write to a pipe or socket without a reader.
    package static let brokenPipe: Int32 = 13
    /// `SIGCHLD`: a child has exited.
    package static let child: Int32 = 17
    /// `SIGKILL`: cannot be caught.
    package static let kill: Int32 = 9

    /// `SIGSYS`: a system call that a seccomp filter kills the process for.
    package static let badSystemCall: Int32 = 31
    /// `SIGXCPU`: the limit of processor time (RLIMIT_CPU) is reached.
    package static let processorTime: Int32 = 24
    /// The signals by which the kernel or the C library kills a process that has failed: SIGSEGV, SIGABRT, SIGBUS,
    /// SIGILL, SIGFPE, SIGTRAP, SIGPIPE and SIGXFSZ.
    package static let faults: Set<Int32> = [11, 6, 7, 4, 8, 5, 13, 25]
}
