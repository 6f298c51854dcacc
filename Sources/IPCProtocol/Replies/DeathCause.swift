/// Why a worker is no more, as `stats` counts it. A job that failed with an error is no death.
public enum DeathCause: String, CaseIterable, Sendable {
    /// A fault that the kernel reports: SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGPIPE, SIGXFSZ.
    case signal
    /// A system call that its sandbox ends a process for (SIGSYS).
    case seccomp
    /// The kernel took it as memory was short, or it crashed with its own memory used up.
    case memory
    /// It used up the processor time of its job.
    case cpu
    /// The broker ended it: it took too long.
    case deadline
    /// The broker ended it: it said what it had no right to say.
    case `protocol`
    /// It ended by itself.
    case exit
    /// It could not be started, or was gone before it was ready.
    case notStarted = "not-started"
    /// The broker ended it: it is not confined as it must be.
    case unconfined
    /// Somebody else ended it.
    case outside

    /// Whether it is the worker's doing, or that of what it was working on: then the next one is not started at once
    /// for ever, and a job is not begun again without end.
    package var isOwnMaking: Bool { self != .outside }
}
