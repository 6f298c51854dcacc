import LinuxSystem
import WorkerProtocol

/// The reason why the disk tier is limited or off.
struct Obstacle: Error, Equatable {
    /// Any state but `on`.
    let state: DiskReport.State
    /// One sentence.
    let reason: String

    /// Whether the files are another process's, or cannot be used at all.
    var isOutOfReach: Bool { state == .locked || state == .off }

    init(_ state: DiskReport.State, _ reason: String) {
        self.state = state
        self.reason = reason
    }

    init(writing directory: String, _ error: SystemError) {
        // Entries can still be read after any failed write.
        state = error.isLackOfSpace ? .full : .readOnly
        reason = "\(directory) cannot be written: \(error.sentence)"
    }
}
