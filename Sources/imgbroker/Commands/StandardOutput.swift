import LinuxSystem
import SystemValues

/// Standard output. A command that cannot print its result has failed.
enum StandardOutput {
    /// Writes lines, or ends the process with status 1 and a line on standard error. Deceptive characters are escaped,
    /// as URLs and messages come from other users and from origins.
    static func write(_ lines: String) {
        do {
            try CurrentProcess.writeToStandardOutput(lines.escapingDeceptiveInLines)
        } catch {
            StandardError.write("standard output cannot be written: \(error)")
            CurrentProcess.exit(CommandStatus.failed)
        }
    }

    /// Writes a command's help. Returns the exit status.
    static func writeHelp(_ usage: String) -> Int32 {
        write(usage + "\n")
        return CommandStatus.done
    }
}

enum StandardError {
    /// Writes a message in one line, with deceptive characters escaped.
    static func write(_ message: String) {
        CurrentProcess.writeToStandardError("imgbroker: \(message.escapingDeceptive)\n")
    }

    /// Writes lines that are a result, with deceptive characters escaped.
    static func writeLines(_ lines: String) {
        CurrentProcess.writeToStandardError(lines.escapingDeceptiveInLines)
    }
}
