import IPCProtocol

/// The reason why a file was not read.
package enum FileReadFailure: Equatable {
    /// It was modified meanwhile: its bytes may be a mixture.
    case changed
    /// It cannot be read by this descriptor.
    case unreadable(String)
    /// Reading it has failed, and may succeed later (`EIO`).
    case failed(String)
    /// The helper has ended.
    case lost
    /// There is no memory for its bytes.
    case noMemory(String)

    /// The error for the request whose file it was.
    var error: WireError {
        switch self {
        case .changed:
            WireError(.transferFailed, "The file was changed while it was read.")
        case .unreadable(let reason): WireError(.badRequest, "The descriptor cannot be read: \(reason).")
        case .failed(let reason):
            WireError(.transferFailed, "The file could not be read: \(reason).")
        case .lost: WireError(.transferFailed, "The process that read the file has ended.")
        case .noMemory(let reason): WireError(.outOfMemory, "There is no room for the file: \(reason).")
        }
    }
}
