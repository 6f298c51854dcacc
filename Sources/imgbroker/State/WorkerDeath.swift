import IPCProtocol
import SystemValues

/// What a worker has died of: judged by how its process ended, and by what the broker had in mind for it.
struct WorkerDeath: Equatable {
    let cause: DeathCause
    /// In words, for people.
    let detail: String

    /// As the log and events have it.
    var reason: String { "\(cause.rawValue): \(detail)" }

    /// - Parameters:
    ///   - sentence: why the broker wanted it to end, if it did.
    ///   - wasReady: whether it had said that it could work.
    ///   - memoryLimit: what it might have of its own, in bytes.
    init(_ exit: WorkerExit, sentence: WorkerPool.Sentence?, wasReady: Bool, memoryLimit: Int = .max) {
        switch exit {
        case .notStarted(let text): (cause, detail) = (.notStarted, text)
        // However it ended: it may have done so itself when it was found out.
        case .ended where sentence?.cause == .protocol: (cause, detail) = (.protocol, sentence?.detail ?? "")
        case .ended(.signal(SignalNumber.kill), let found):
            if let sentence {
                (cause, detail) = (sentence.cause, sentence.detail)
            } else if found.isMemoryShort {
                (cause, detail) = (.memory, "the kernel took it, as memory was short")
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
                // Nothing that a worker does brings it any other.
                case .signal: .outside
                }
        }
    }
}
