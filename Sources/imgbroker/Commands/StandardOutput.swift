import LinuxSystem

/// Standard output. A command that cannot print its result has failed.
enum StandardOutput {
    /// Writes `text`, or ends the process with status 1 and a line on standard error.
    static func write(_ text: String) {
        do {
            try CurrentProcess.writeToStandardOutput(text)
        } catch {
            CurrentProcess.writeToStandardError("imgbroker: standard output cannot be written: \(error)\n")
            CurrentProcess.exit(CommandConnection.Status.failed)
        }
    }
}
