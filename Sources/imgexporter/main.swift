import LinuxSystem
import SystemValues
import WebServing

// The exporter, which `imgbroker exporter` starts with its checked options:
//     imgexporter ADDRESS PORT SOCKET THUMBNAILS [HOST]...
// It is a client of the broker's socket, and serves HTTP.

CurrentProcess.openStandardDescriptors()
let log = Log(name: "imgexporter", level: .notice, format: LogFormat(isForJournal: Log.isJournal))
let words = Array(CommandLine.arguments.dropFirst())
guard words.count >= 4, let port = UInt16(words[1]), let isShowing = Bool(words[3]) else {
    CurrentProcess.writeToStandardError("imgexporter: run it as: imgbroker exporter (see imgbroker exporter --help)\n")
    CurrentProcess.exit(2)
}
do throws(SystemError) {
    let signals = try WebServer.blockSignals()
    let socket = try WebServer.listen(at: words[0], port: port)
    let exporter = Exporter(
        path: words[2], hosts: HostGuard(allowing: Array(words.dropFirst(4))),
        thumbnails: isShowing ? try Thumbnails(path: words[2]) : nil)
    try WebServer.start(socket.descriptor, exporter)
    log.notice(.started, "serving \(socket.url) for the broker at \(words[2])")
    if let warning = exporter.warning { log.warning(.setting, warning) }
    WebServer.wait(for: signals)
    CurrentProcess.exit(0)
} catch {
    switch error.code {
    case SystemError.addressInUse:
        log.error(
            .setting,
            "port \(port) of \(words[0]) is taken: end the program that has it, or choose another with --listen")
    case SystemError.accessDenied:
        log.error(
            .setting, "port \(port) of \(words[0]) may be opened by root only: choose one from 1024 with --listen")
    default: log.error(.setting, "cannot listen at port \(port) of \(words[0]): \(error)")
    }
    CurrentProcess.exit(1)
}
