internal import IPCProtocol
internal import LinuxSystem
internal import SharedCache

/// The hashing of bytes that were given, in slices so that transfers go on meanwhile.
final class Identification {
    /// The most bytes that are hashed at once.
    static let sliceBytes = 4 << 20

    /// The job that it is.
    let job: Int

    private let descriptor: FileDescriptor
    private let bytes: Int
    private var offset = 0
    private var hash: SHA256? = SHA256()

    /// The first `bytes` bytes of `descriptor` are to be hashed.
    init(job: Int, bytes: Int, of descriptor: FileDescriptor) {
        self.job = job
        self.bytes = bytes
        self.descriptor = descriptor
    }

    /// Hashes the next slice; the last report when it was the last.
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
