// Enters a worker's sandbox and then makes one attempt that it forbids or allows. The exit status is the error, or 0;
// 125 when the sandbox is not in force; 124 when the kernel cannot restrict ports; 126 for wrong usage.
//
//     imgprobe decode|svg|fetch|tier|descriptors|threads ATTEMPT [--strict]
//     imgprobe cache ATTEMPT PATH OWN EXTRA [--strict]
//
//     imgprobe watch SOCKET URL FILE
//     imgprobe hits SOCKET URL [call]
//     imgprobe calls SOCKET [keep]
//     imgprobe load SOCKET FILE waiting|tasks
//
// These are clients: see `Watcher`, `SilentClient`, `ConformanceDriver` and `FileClient`.
//
//     imgprobe runtime [OPTION]...
//
// This is a worker that records how it is started: see `ProbeProgram`. Under the names imgworker and imgworker-avif the
// program is a compromised decode worker: see `Attacker`; under the names imgfetch and imgcache a compromised download
// worker and cache process: see `FetchImpostor` and `CacheImpostor`.

internal import CProbe
internal import Glibc
internal import LinuxSystem
internal import Sandbox
import WorkerProtocol
internal import WorkerRuntime

let arguments = CommandLine.arguments
CurrentProcess.setNameOfProgram()
if arguments[0].hasSuffix("/imgworker") || arguments[0].hasSuffix("/imgworker-avif") { Attacker.run(arguments) }
if arguments[0].hasSuffix("/imgfetch") { FetchImpostor.run(arguments) }
if arguments[0].hasSuffix("/imgcache") { CacheImpostor.run(arguments) }
if arguments.count > 1, arguments[1] == "watch" { Watcher.run(arguments) }
if arguments.count > 1, arguments[1] == "hits" { SilentClient.run(arguments) }
if arguments.count > 1, arguments[1] == "calls" { ConformanceDriver.run(arguments) }
if arguments.count > 1, arguments[1] == "load" { FileClient.run(arguments) }
if arguments.count > 1, arguments[1] == "runtime" {
    exit(WorkerRuntime.run(ProbeProgram(), arguments: arguments.dropFirst(2)))
}
guard arguments.count >= 3 else { exit(126) }
let isCache = arguments[1] == "cache"
guard !isCache || arguments.count >= 6 else { exit(126) }
var policy =
    switch arguments[1] {
    case "cache": SandboxPolicy.cache(directory: arguments[4], extraDirectories: [arguments[5]])
    case "fetch": SandboxPolicy.fetch
    // The first of two ports is a server's.
    case "tier": SandboxPolicy.tier(ports: [UInt16(clamping: cprobe_listen())])
    case "descriptors": SandboxPolicy.descriptors
    case "files": SandboxPolicy.files
    case "svg": SandboxPolicy.svg
    default: SandboxPolicy.decode
    }
policy.isStrict = arguments.contains("--strict")
policy.largestFile = 1 << 20
cprobe_prepare()
if arguments[1] == "threads", cprobe_start_thread() != 0 { exit(126) }
let report = policy.enter().report
guard report.isEnough else { _exit(125) }
// Landlock restricts ports from version 4 on.
if arguments[2] == "connect-other", report.landlock < 4 { _exit(124) }
var status = unsafe isCache ? cprobe_attempt_path(arguments[2], arguments[3]) : -1
if status < 0 { status = unsafe cprobe_attempt(arguments[2]) }
_exit(status < 0 ? 126 : status)
