import IPCProtocol
import ImageBrokerClient
import LinuxSystem
import SharedCache
import SystemValues

/// Decodes a small new image through the broker: its socket, its event loop, the receipt of descriptors and a decode
/// worker must work for that. The caches are passed by. At most one image a second.
final class HealthCheck: Sendable {
    private struct State {
        var checkedAt: Instant?
        /// Why the last check failed; nil after a success.
        var problem: String?
        var count: UInt32 = 0
    }

    private static let validMilliseconds = 1000
    /// The longest time of a decoding.
    private static let deadline = 5000
    private static let mostPresets = 8
    private let path: String
    private let state = Locked(State())

    init(path: String) {
        self.path = path
    }

    /// Why the broker cannot decode an image, in one line; nil when it can.
    func problem() -> String? {
        state.withLock { state in
            if let checkedAt = state.checkedAt, Instant.now < checkedAt.adding(milliseconds: Self.validMilliseconds) {
                return state.problem
            }
            state.count &+= 1
            let colour = state.count
            let image = ProbeImage(
                red: UInt8(truncatingIfNeeded: colour), green: UInt8(truncatingIfNeeded: colour >> 8),
                blue: UInt8(truncatingIfNeeded: colour >> 16))
            do throws(ClientError) {
                state.problem = try isDecoded(image) ? nil : "a decoded image has wrong pixels"
            } catch {
                state.problem = "\(error)"
            }
            state.checkedAt = Instant.now
            return state.problem
        }
    }

    /// Whether the broker makes the right pixels of an image. What a preset makes of it is not checked.
    private func isDecoded(_ image: ProbeImage) throws(ClientError) -> Bool {
        var options = GetOptions()
        options.cache = .noStore
        options.storage = .none
        options.delivery = .inline
        options.priority = .high
        options.totalTimeoutMs = Self.deadline
        let broker = try ImageBroker(path: path, patience: Self.deadline)
        do throws(ClientError) {
            return try decode(image, options, broker) == image.pixels
        } catch {
            // With `only-presets`, a request without one is refused. A preset may not suit the image.
            guard case .refused(let refusal) = error, refusal.code == .forbidden else { throw error }
            var last = error
            for preset in try broker.hello(client: ProductVersion.product).presets.prefix(Self.mostPresets) {
                options.preset = preset
                do throws(ClientError) {
                    _ = try decode(image, options, broker)
                    return true
                } catch {
                    last = error
                }
            }
            throw last
        }
    }

    private func decode(
        _ image: ProbeImage, _ options: GetOptions, _ broker: ImageBroker
    ) throws(ClientError) -> [UInt8] {
        let file = try SealedBuffer.copy(of: image.png)
        let result = try broker.get(file: file.descriptor, name: "imgexporter-health", options)
        return result.withBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Array($0) } }
    }
}
