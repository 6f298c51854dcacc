internal import IPCProtocol
internal import LinuxSystem
internal import SharedCache

/// The kept images of an engine, for all threads. No thread waits while it has the lock.
final class KeptStore: Sendable {
    private let images = Locked<KeptImages?>(nil)

    /// Returns the image that a `get` would return, and whether a report of such uses is due.
    func image(at url: String, _ options: GetOptions) -> (image: BrokerImage, isReportDue: Bool)? {
        images.withLock { $0?.image(at: url, options) }
    }

    /// Starts to keep images of the broker that made `page`.
    func start(_ limits: ImageBroker.Keeping, _ page: ValidityView) {
        images.withLock {
            $0 = KeptImages(
                maximumImages: limits.images, maximumBytes: limits.bytes, maximumDescriptors: limits.descriptors,
                page: page)
        }
    }

    /// Keeps the image of a request if it has a slot.
    func keep(_ image: BrokerImage, at url: String, _ options: GetOptions) {
        images.withLock { $0?.keep(image, at: url, options) }
    }

    /// Takes the report of uses that the broker did not see; nil when none is due.
    func takeReport() -> ClientMessage? { images.withLock { $0?.takeTouch() } }

    /// Removes all images to make room. Returns whether there were any.
    func removeAll() -> Bool {
        images.withLock { images in
            guard images?.isEmpty == false else { return false }
            images?.removeAll()
            return true
        }
    }

    /// Ends keeping: the connection is lost.
    func stop() { images.withLock { $0 = nil } }
}
