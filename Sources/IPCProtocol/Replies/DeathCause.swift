/// The reason for a worker's exit, as counted by `stats`. A job that failed with an error does not count.
public enum DeathCause: String, CaseIterable, Sendable {
    /// A fault reported by the kernel: SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGPIPE, SIGXFSZ.
    case signal
    /// A system call that its sandbox forbids (SIGSYS).
    case seccomp
    /// Killed by the kernel for lack of memory, or crashed with its own memory limit used up.
    case memory
    /// The processor time of its job was used up.
    case cpu
    /// Killed by the broker: it took too long.
    case deadline
    /// Killed by the broker: it sent a message that it was not allowed to send.
    case `protocol`
    /// It exited by itself.
    case exit
    /// It could not be started, exited before it was ready, or its program has another version than the broker.
    case notStarted = "not-started"
    /// Killed by the broker: it is not confined as required.
    case unconfined
    /// Terminated by a process other than the broker.
    case outside

    /// Whether the worker or its job caused the exit. If so, restarts are delayed and the attempts at the job are
    /// limited, to prevent an endless loop.
    package var isOwnMaking: Bool { self != .outside }

    /// Whether the worker did what its program never does, so that another's code may have run in it.
    package var isCompromise: Bool { self == .seccomp || self == .protocol }
}
