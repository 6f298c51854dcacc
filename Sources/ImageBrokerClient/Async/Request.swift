internal import HTTPValues
internal import IPCProtocol
internal import LinuxSystem

/// The replies of a request in flight.
typealias Updates = AsyncThrowingStream<ImageBroker.Incoming, any Error>

/// A request of an engine, which is sent again if its connection is lost.
///
/// Its variables are guarded by the engine's lock.
final class Request: @unchecked Sendable {
    /// Makes the message with an id.
    let message: @Sendable (Int) -> ClientMessage
    /// The descriptors that are sent with the message.
    let descriptors: [FileDescriptor]
    /// The URL and the options under which the final image is kept; nil to keep none.
    let keepAs: (url: String, options: GetOptions)?
    /// Whether it is sent again if its connection is lost.
    let isRepeatable: Bool
    /// Whether replies follow the first terminal one.
    let isSubscription: Bool
    /// Whether a reply is one that the protocol permits for this request.
    let accepts: @Sendable (ImageBroker.Incoming) -> Bool
    /// The receiver of the replies; nil if they are ignored.
    let updates: Updates.Continuation?

    /// The id over the present connection; nil before the request was sent.
    var id: Int?
    /// The number of times that it was sent.
    var attempts = 0
    /// Whether nobody waits for it any more.
    var isCancelled = false

    init(
        _ message: @escaping @Sendable (Int) -> ClientMessage, descriptors: [FileDescriptor] = [],
        keepAs: (url: String, options: GetOptions)? = nil, isRepeatable: Bool = true, isSubscription: Bool = false,
        updates: Updates.Continuation?, accepts: @escaping @Sendable (ImageBroker.Incoming) -> Bool
    ) {
        self.message = message
        self.descriptors = descriptors
        self.keepAs = keepAs
        self.isRepeatable = isRepeatable
        self.isSubscription = isSubscription
        self.updates = updates
        self.accepts = accepts
    }

    /// Whether it is to be sent again, after its connection was lost: once.
    var mayRepeat: Bool { isRepeatable && attempts < 2 && !isCancelled }
}

/// The requests of the iterators of one sequence.
final class PendingRequests: Sendable {
    private struct Weak: Sendable {
        weak let request: Request?
    }

    private let requests = Locked<[Weak]>([])

    var all: [Request] { requests.withLock { $0.compactMap(\.request) } }

    func note(_ request: Request) {
        requests.withLock {
            $0.removeAll { $0.request == nil }
            $0.append(Weak(request: request))
        }
    }
}
