// The download worker: it has the network, and no codec. The broker starts it with one end of a socket pair as
// descriptor 3, orders transfers there and hands over the descriptors that their bodies go to.

internal import CTransfer
internal import Glibc
internal import IPCProtocol
internal import LinuxSystem
internal import Sandbox

func quit(_ message: String, status: Int32) -> Never {
    CurrentProcess.writeToStandardError("imgfetch: \(message)\n")
    exit(status)
}

let options: FetchOptions
do { options = try FetchOptions(CommandLine.arguments.dropFirst()) } catch { quit("\(error)", status: 2) }
let log = Log(name: "imgfetch", level: options.logLevel)

let control = FileDescriptor(owning: 3)
if (try? UnixSocket.peerCredentials(of: control)) == nil {
    quit("descriptor 3 is no socket: imgbroker starts this program, it is not for use by hand", status: 2)
}

do {
    CurrentProcess.offerToKernel()
    // Changing the user undoes the tie to the parent, so that comes second.
    if let uid = options.uid, let gid = options.gid { try CurrentProcess.become(uid: uid, gid: gid) }
    if options.parent != 0 {
        try CurrentProcess.dieWithParent()
        // The parent may have gone before the tie was made.
        if CurrentProcess.parent != options.parent { exit(0) }
    }
    // A core could hold credentials.
    try CurrentProcess.forbidCoreDumps()
    // TLS libraries write to sockets that the other end has closed.
    signal(SIGPIPE, SIG_IGN)
    _ = CurrentProcess.raiseDescriptorLimit()
    guard ctransfer_global_init() == CURLE_OK else { quit("libcurl cannot be initialised", status: 1) }
    let loop = try FetchLoop(
        control: control, policy: AddressPolicy(allowed: options.allowedAddresses), proxy: options.proxy,
        speedFloor: options.speedFloor, log: log)

    try WarmUp.run()

    // Everything that needs more rights than transfers do is done.
    ctransfer_load_libraries()
    var policy = SandboxPolicy.fetch
    policy.isStrict = options.hasStrictSandbox
    policy.largestFile = options.largestFile
    let sandbox = policy.enter()
    for problem in sandbox.problems { log.warning("not confined in full: \(problem)") }

    switch try loop.run(in: sandbox.report) {
    // Without the libraries' exit handlers: threads of the resolver may still use what those take down.
    case .closed: _exit(0)
    case .broken(let reason):
        log.error("\(reason)")
        _exit(1)
    }
} catch {
    quit("\(error)", status: 1)
}
