// The decode worker: it has codecs, and no network. The broker hands it one descriptor to read and one to write for each job.

import LinuxSystem
import WorkerRuntime

do {
    if try FormatTable.print(Array(CommandLine.arguments.dropFirst())) { CurrentProcess.exit(0) }
} catch {
    CurrentProcess.writeToStandardError("imgbroker: standard output cannot be written: \(error)\n")
    CurrentProcess.exit(1)
}
WorkerRuntime.run(DecodeProgram.self)
