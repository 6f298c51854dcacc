package import SystemValues

/// The kinds of worker.
package enum WorkerKind: String, CaseIterable, Sendable {
    /// Downloads, many concurrently.
    case fetch
    /// Decodes, one image at a time.
    case decode
    /// The disk tier, one process.
    case cache
    /// The shared tier, one process.
    case tier
}

/// How a worker's process exited, as far as the shell can tell.
package enum WorkerExit: Equatable {
    /// It could not be started.
    case notStarted(String)
    case ended(ProcessExit, ExitCircumstances = ExitCircumstances())

    /// Whether the kernel killed it for want of memory.
    var isMemoryShort: Bool {
        if case .ended(.signal(SignalNumber.kill), let found) = self { found.isMemoryShort } else { false }
    }
}

/// The circumstances of a process's exit.
package struct ExitCircumstances: Equatable {
    /// Whether the kernel has killed processes for want of memory since the last exit.
    package var isMemoryShort: Bool
    /// The process's peak memory in bytes.
    package var peakBytes: Int

    package init(isMemoryShort: Bool = false, peakBytes: Int = 0) {
        self.isMemoryShort = isMemoryShort
        self.peakBytes = peakBytes
    }
}
