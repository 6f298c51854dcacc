// The decode worker: it has codecs, and no network. The broker hands it one descriptor to read and one to write for each job.

import LinuxSystem
import WorkerRuntime

if FormatTable.print(Array(CommandLine.arguments.dropFirst())) { CurrentProcess.exit(0) }
WorkerRuntime.run(DecodeProgram.self)
