import IPCProtocol
import ImageBrokerClient
import LinuxSystem

/// Thumbnails of the last images that were downloaded, made by the broker of what it has cached. The broker gives this
/// process's user only images that are shared by all users, and its own. URLs are not shown.
final class Thumbnails: Sendable {
    static let count = 12
    /// The most thumbnails made for one reader's request.
    private static let mostAtOnce = 2
    /// The longest side in pixels.
    private static let side = 160
    /// The largest file; larger ones are not kept.
    private static let mostBytes = 256 << 10

    private struct State {
        /// The last downloaded URLs that have no thumbnail, the latest first.
        var waiting: [String] = []
        /// The files, the latest first.
        var made: [(number: Int, url: String, png: [UInt8])] = []
        var next = 0
    }

    private let path: String
    private let state = Locked(State())
    /// Lets one reader at a time make thumbnails.
    private let turn = Locked(())

    /// Follows the downloads of the broker at `path` on a thread of its own.
    ///
    /// - Throws: `SystemError` of `pthread_create`.
    init(path: String) throws(SystemError) {
        self.path = path
        try DetachedThread.start(name: "downloads") { [self] in
            // A loop without a condition takes the optimizer of Swift 6.3 minutes.
            repeat { follow() } while CurrentProcess.pause(milliseconds: 1000)
        }
    }

    /// Notes downloads until the broker exits. No event tells when it is back.
    private func follow() {
        let broker = try? ImageBroker(path: path)
        try? broker?.follow([.finished]) { event in
            guard let url = event.url else { return true }
            self.state.withLock { state in
                state.waiting.removeAll { $0 == url }
                state.waiting.insert(url, at: 0)
                if state.waiting.count > Self.count { state.waiting.removeLast() }
            }
            return true
        }
    }

    /// Makes at most two thumbnails of images that have come since the last call, and returns the numbers of all, the
    /// latest first. So nothing is made while no reader asks, and little however often images come.
    func update() -> [Int] {
        turn.withLock { _ in
            for _ in 0..<Self.mostAtOnce {
                let url = state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }
                guard let url, let png = make(url) else { continue }
                state.withLock { state in
                    state.made.removeAll { $0.url == url }
                    state.made.insert((state.next, url, png), at: 0)
                    state.next += 1
                    // Readers still ask for those that they have just been told of.
                    if state.made.count > 2 * Self.count { state.made.removeLast() }
                }
            }
        }
        return state.withLock { $0.made.prefix(Self.count).map(\.number) }
    }

    func png(_ number: Int) -> [UInt8]? {
        state.withLock { state in state.made.first { $0.number == number }?.png }
    }

    private func make(_ url: String) -> [UInt8]? {
        var options = GetOptions()
        options.representation = .png
        options.variant.width = Self.side
        options.variant.height = Self.side
        options.cache = .onlyIfCached
        options.storage = .none
        options.delivery = .inline
        options.priority = .low
        options.totalTimeoutMs = 3000
        guard let broker = try? ImageBroker(path: path, patience: 1500), let image = try? broker.get(url, options),
            image.reply.bytes <= Self.mostBytes
        else { return nil }
        return image.withBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Array($0) } }
    }
}
