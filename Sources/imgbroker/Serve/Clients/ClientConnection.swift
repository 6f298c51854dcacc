import BrokerCore
import IPCTransport
import LinuxSystem
import SystemValues

/// A client as the event loop sees it.
final class ClientConnection {
    /// The unsent bytes of frames, and the unsent descriptors, above which nothing more is read from the client until
    /// it has received its replies.
    static let backPressureBytes = 1 << 20
    static let backPressureDescriptors = 64
    /// The unsent bytes above which the client is disconnected. Replies to earlier requests, and events, may exceed the
    /// back-pressure bound.
    static let maximumQueuedBytes = 8 << 20
    /// The time that one iteration of the event loop spends on one client's messages; the rest waits for the next one.
    static let microsecondsAtOnce = 2000
    /// The time in which a client must accept some bytes of its replies; else it is disconnected.
    static let sendingMicroseconds = 30_000_000
    /// A frame longer than this counts among arriving bytes, as a longest frame.
    static let smallFrame = 1 << 16

    let id: ClientID
    let uid: UInt32
    let isAdmin: Bool
    let seesFigures: Bool
    let channel: FrameChannel
    /// Whether nothing is read any more, and the connection is closed once everything is sent.
    var isClosing = false
    /// Whether the state knows that a frame is arriving.
    var hasBegunFrame = false
    /// Whether received messages are left to be served before more is received.
    var hasMore = false
    var waitsForTurn = false
    /// Whether nothing more is received from it until an upgrade has ended.
    var isPaused = false
    /// The bytes of its `store`, while they arrive or are copied.
    var upload: Upload?
    /// Whether a helper receives its next message, because that has descriptors.
    var isBeingReceived = false
    /// When its socket last accepted bytes, or was found empty; nil while nothing waits to be sent.
    var blockedSince: Instant?
    /// Its share of the pool of arriving bytes.
    var arriving = 0
    /// Its share of the pool of unsent descriptors, and the number of these from which on nothing more is read from it.
    var unsentDescriptors = 0
    var mostUnsentDescriptors = ClientConnection.backPressureDescriptors
    /// The events that the event queue watches now.
    var watched = (reading: true, writing: false)

    /// Whether a frame or its payload has begun to arrive.
    var isInsideFrame: Bool { channel.isInsideFrame || upload != nil }

    init(
        id: ClientID, _ peer: UnixSocket.PeerCredentials, isAdmin: Bool, seesFigures: Bool,
        socket: FileDescriptor, receivingInto buffer: FrameChannel.ReceiveBuffer
    ) {
        self.id = id
        uid = peer.uid
        self.isAdmin = isAdmin
        self.seesFigures = isAdmin || seesFigures
        channel = FrameChannel(socket: socket, receivingInto: buffer, descriptors: .left)
    }

    /// Whether it must receive replies before it may ask for more.
    var isBackedUp: Bool {
        channel.queuedBytes >= Self.backPressureBytes || channel.queuedDescriptors >= mostUnsentDescriptors
    }

    /// Whether a message of it with a descriptor is incomplete or not handled, so that it cannot be handed over.
    var isInsideMessage: Bool {
        !isClosing && (isBeingReceived || channel.receivedDescriptors > 0 || upload?.isCopy == true)
    }
    /// Whether it has sent more of a payload than is handed over.
    var hasLongUpload: Bool { upload.map { $0.received > 1 << 20 } ?? false }

    /// The events that should be watched now.
    var wanted: (reading: Bool, writing: Bool) {
        (
            !isClosing && !hasMore && !isBackedUp && !isBeingReceived && (!isPaused || isInsideMessage),
            channel.hasOutgoing && !channel.isStalled
        )
    }
}
