import IPCProtocol
import IPCTransport
import LinuxSystem

/// Makes workers of a process that is warm already: a new one shares what its libraries have read, relocated and filled,
/// and is ready in a fraction of the time that a start takes.
///
/// The server itself decodes nothing but the samples of the warm-up, and reads nothing but its orders. Its
/// workers confine themselves, as those that were started do.
struct ForkServer {
    /// Its name in lists of processes.
    static let processName = "imgworker-fork"

    /// Where the broker speaks.
    let channel: FrameChannel

    /// Serves until the broker closes the socket.
    ///
    /// - Returns: in a new worker, its own control socket; in the server, nil at its end.
    /// - Throws: `FrameChannel.Failure`, `SystemError`.
    func run() throws -> FileDescriptor? {
        try channel.sendMessage(ForkReport.ready)
        while let (_, descriptors) = try channel.receiveMessage(ForkOrder.self) {
            guard let pid = try CurrentProcess.forkSibling() else {
                CurrentProcess.setName("imgworker")
                CurrentProcess.hideLastArgument()
                return descriptors[0]
            }
            try channel.sendMessage(ForkReport.forked(pid: pid))
        }
        return nil
    }
}
