import IPCProtocol
import LinuxSystem

/// Why the disk tier does not do all it could.
struct Obstacle: Error, Equatable {
    /// Any but `on`.
    let state: DiskReport.State
    /// In one sentence.
    let reason: String

    init(_ state: DiskReport.State, _ reason: String) {
        self.state = state
        self.reason = reason
    }

    /// Something could not be written in `directory`.
    init(writing directory: String, _ error: SystemError) {
        // Whatever keeps it from writing, what is there can still be read.
        state = error.isLackOfSpace ? .full : .readOnly
        reason = "\(directory) cannot be written: \(error.sentence)"
    }
}
