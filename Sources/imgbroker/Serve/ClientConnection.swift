import BrokerCore
import IPCProtocol
import IPCTransport
import LinuxSystem

/// One client as the event loop sees it.
final class ClientConnection {
    /// What waits to be sent, in bytes of frames and in descriptors: above that nothing more is taken from the client
    /// until it has read what it asked for.
    static let backPressureBytes = 1 << 20
    static let backPressureDescriptors = 64
    /// Bytes that wait to be sent: above that, which answers to earlier requests and events may bring, the connection is
    /// given up.
    static let maximumQueuedBytes = 8 << 20
    /// In one turn of the loop at most so much time is spent on what one client has sent; what is left waits for the next
    /// turn.
    static let microsecondsAtOnce = 2000
    /// A frame that is longer than this counts among what arrives, as the longest that there may be.
    static let smallFrame = 1 << 16

    let id: ClientID
    let uid: UInt32
    let isAdmin: Bool
    let channel: FrameChannel
    /// Nothing is read any more; the connection ends when everything is sent.
    var isClosing = false
    /// Whether the state knows that a frame is arriving.
    var hasBegunFrame = false
    /// Whether there is more of what was received to be dealt with, before anything else is received.
    var hasMore = false
    /// Whether it waits for its turn to have what it sent dealt with.
    var isInBacklog = false
    /// What it is giving, while that arrives or is copied.
    var upload: Upload?
    /// What it has of the pool of bytes that arrive.
    var arriving = 0
    /// What the event queue watches at present.
    var watched = (reading: true, writing: false)

    /// Whether a frame, or what belongs to it, has begun to arrive.
    var isInsideFrame: Bool { channel.isInsideFrame || upload != nil }

    init(
        id: ClientID, _ peer: UnixSocket.PeerCredentials, isAdmin: Bool, socket: FileDescriptor,
        receivingInto buffer: FrameChannel.ReceiveBuffer
    ) {
        self.id = id
        uid = peer.uid
        self.isAdmin = isAdmin
        channel = FrameChannel(
            socket: socket, receivingInto: buffer, descriptorsPerMessage: 1)
    }

    /// Whether it has to read before it may ask for more.
    var isBackedUp: Bool {
        channel.queuedBytes >= Self.backPressureBytes || channel.queuedDescriptors >= Self.backPressureDescriptors
    }

    /// What should be watched now.
    var wanted: (reading: Bool, writing: Bool) {
        (!isClosing && !hasMore && !isBackedUp, channel.hasOutgoing && !channel.isStalled)
    }
}
