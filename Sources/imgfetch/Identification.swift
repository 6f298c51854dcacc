import Digests
internal import IPCProtocol
internal import LinuxSystem
internal import SharedCache
import WorkerProtocol

/// Computes the digest of uploaded bytes, in slices, so that transfers continue meanwhile.
final class Identification {
    /// The number of bytes that are hashed at once.
    static let sliceBytes = 4 << 20

    /// The job's number.
    let job: Int

    private let descriptor: FileDescriptor
    private let bytes: Int
    private var offset = 0
    private var hash: SHA256? = SHA256()

    /// Prepares to hash the first `bytes` bytes of `descriptor`.
    init(job: Int, bytes: Int, of descriptor: FileDescriptor) {
        self.job = job
        self.bytes = bytes
        self.descriptor = descriptor
    }

    /// Hashes the next slice. Returns the final report after the last one.
    func hashSlice() -> FetchReport? {
        let end = min(bytes, offset + Self.sliceBytes)
        do {
            guard try hash?.update(descriptor, from: offset, to: end) == end - offset else {
                return failure("The given bytes are fewer than \(bytes).")
            }
        } catch {
            return failure("The given bytes cannot be read: \(error).")
        }
        offset = end
        guard offset == bytes, let hash = hash.take() else { return nil }
        return .finished(job: job, FetchResult(bytes: bytes, digest: hash.hexadecimalDigest()))
    }

    private func failure(_ sentence: String) -> FetchReport {
        .failed(job: job, FetchFailure(WireError(.internal, sentence)))
    }
}
