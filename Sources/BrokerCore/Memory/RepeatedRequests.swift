import HTTPValues
import IPCProtocol
import SystemValues

/// A request that was a memory hit, and its reply.
final class RepeatedRequest: Sendable {
    let uid: UInt32
    /// The request's text after its id.
    let text: [UInt8]
    let key: OriginalKey
    let buffer: BufferID
    let bytes: Int
    /// The segment in which it lies; nil with a memfd.
    let segment: Int?
    /// When the original becomes stale.
    let freshUntil: Instant
    /// The index's revision for which the reply is right.
    let revision: Int
    /// The reply's text after its id, without and with the buffer's descriptor.
    let answer: [UInt8]
    let answerWithDescriptor: [UInt8]

    init(
        uid: UInt32, text: [UInt8], key: OriginalKey, image: ImageReply, buffer: BufferID, freshUntil: Instant,
        revision: Int
    ) {
        (self.uid, self.text, self.key, self.buffer) = (uid, text, key, buffer)
        (self.freshUntil, self.revision) = (freshUntil, revision)
        (bytes, segment) = (image.bufferBytes, image.segment)
        var image = image
        (image.descriptors, image.segmentBytes) = (0, nil)
        answer = Reply.restOfImage(image)
        image.descriptors = 1
        answerWithDescriptor = Reply.restOfImage(image)
    }
}

/// The recent memory hits, found by the text of the request. A table of fixed size in which a later request replaces an
/// earlier one with the same index. A request is kept from its second hit on, because many come only once and encoding
/// the replies costs as much as a hit.
struct RepeatedRequests {
    /// A power of two.
    private static let capacity = 4096

    /// Unpredictable, so that no client can choose whose requests it replaces.
    private let seed: UInt64
    private var requests: [RepeatedRequest?] = []
    /// The hash of the last text at each index.
    private var seen: [Int] = []

    init(seed: UInt64) {
        self.seed = seed
    }

    /// Returns the last reply to this text of this user. The caller checks whether it is still right.
    func find(_ text: ArraySlice<UInt8>, uid: UInt32) -> RepeatedRequest? {
        if requests.isEmpty { return nil }
        let place = hash(of: text, uid: uid) & (Self.capacity - 1)
        guard let found = requests[place], found.uid == uid, text.hasSameBytes(as: found.text) else { return nil }
        return found
    }

    /// Keeps what `request` returns if the text was the last one at its index already.
    mutating func note(_ text: ArraySlice<UInt8>, uid: UInt32, _ request: () -> RepeatedRequest?) {
        if requests.isEmpty {
            requests = Array(repeating: nil, count: Self.capacity)
            seen = Array(repeating: 0, count: Self.capacity)
        }
        let hash = hash(of: text, uid: uid)
        let place = hash & (Self.capacity - 1)
        if seen[place] == hash { requests[place] = request() }
        seen[place] = hash
    }

    mutating func removeAll() { (requests, seen) = ([], []) }

    private func hash(of text: ArraySlice<UInt8>, uid: UInt32) -> Int {
        let hash = unsafe text.withUnsafeBytes { unsafe FoldedHash.hash($0, seed: seed ^ UInt64(uid)) }
        return Int(truncatingIfNeeded: hash)
    }
}
