internal import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
internal import WorkerProtocol

/// Forks workers from a process that is already warm. A forked worker shares the memory that its libraries have read,
/// relocated and filled, and is ready in a fraction of the time that a start takes.
///
/// The server reads only its orders, and decodes only the samples of the warm-up. Its workers confine themselves, as
/// those do that are started as programs.
struct ForkServer {
    /// The channel to the broker.
    let channel: FrameChannel
    /// The name of a forked worker in lists of processes.
    let workerName: String

    /// Serves until the broker closes the socket, and returns nil then. In a new worker it returns its control socket.
    func run() throws -> FileDescriptor? {
        try channel.sendMessage(ForkReport.ready)
        while let (_, descriptors) = try channel.receiveMessage(ForkOrder.self) {
            guard let pid = try CurrentProcess.forkSibling() else {
                CurrentProcess.setName(workerName)
                CurrentProcess.hideLastArgument()
                return descriptors[0]
            }
            try channel.sendMessage(ForkReport.forked(pid: pid))
        }
        return nil
    }
}
