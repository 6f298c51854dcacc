import IPCProtocol
import SystemValues
import WorkerProtocol

/// Why a worker exited, concluded from its process's exit and from the broker's own intention.
struct WorkerDeath: Equatable {
    let cause: DeathCause
    /// For people.
    let detail: String

    /// The text for log and events.
    var reason: String { "\(cause.rawValue): \(detail)" }

    /// - Parameters:
    ///   - condemnation: why the broker killed it, if it did.
    ///   - wasReady: whether it had become ready.
    ///   - memoryLimit: its limit of own memory, in bytes.
    init(_ exit: WorkerExit, condemnation: WorkerPool.Condemnation?, wasReady: Bool, memoryLimit: Int = .max) {
        switch exit {
        case .notStarted(let text): (cause, detail) = (.notStarted, text)
        // However it ended: it may have exited by itself once it was found out.
        case .ended where condemnation?.cause == .protocol: (cause, detail) = (.protocol, condemnation?.detail ?? "")
        case .ended(.signal(SignalNumber.kill), let found):
            if let condemnation {
                (cause, detail) = (condemnation.cause, condemnation.detail)
            } else if found.isMemoryShort {
                (cause, detail) = (.memory, "the kernel killed it, as memory was short")
            } else {
                (cause, detail) = (.outside, "\(ProcessExit.signal(SignalNumber.kill))")
            }
        case .ended(let end, let found):
            detail =
                found.peakBytes >= memoryLimit / 4 * 3 ? "\(end), with \(found.peakBytes >> 20) MiB in use" : "\(end)"
            cause =
                switch end {
                case .status: wasReady ? .exit : .notStarted
                case .signal(SignalNumber.badSystemCall): .seccomp
                case .signal(SignalNumber.processorTime): .cpu
                case .signal(let number) where SignalNumber.faults.contains(number):
                    found.peakBytes >= memoryLimit / 4 * 3 ? .memory : .signal
                // A worker brings no other signal on itself.
                case .signal: .outside
                }
        }
    }
}
