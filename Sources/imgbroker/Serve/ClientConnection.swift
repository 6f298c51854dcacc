import IPCProtocol
import IPCTransport
import LinuxSystem

/// One client as the event loop sees it.
final class ClientConnection {
    /// Frames that wait to be sent, in bytes: above the first number nothing more is read from the client until it has
    /// read what it asked for, above the second the connection is given up.
    static let backPressureBytes = 1 << 20
    static let maximumQueuedBytes = 8 << 20

    let id: ClientID
    let channel: FrameChannel
    /// Nothing is read any more; the connection ends when everything is sent.
    var isClosing = false
    /// Whether the state knows that a frame is arriving.
    var hasBegunFrame = false
    /// What it is giving, while that arrives.
    var upload: Upload?
    /// What the event queue watches at present.
    var watched = (reading: true, writing: false)

    /// Whether a frame, or what belongs to it, has begun to arrive.
    var isInsideFrame: Bool { channel.isInsideFrame || upload != nil }

    init(id: ClientID, socket: FileDescriptor, receivingInto buffer: FrameChannel.ReceiveBuffer) {
        self.id = id
        channel = FrameChannel(socket: socket, receivingInto: buffer)
    }

    /// What should be watched now.
    var wanted: (reading: Bool, writing: Bool) {
        (!isClosing && channel.queuedBytes < Self.backPressureBytes, channel.hasOutgoing && !channel.isStalled)
    }
}
