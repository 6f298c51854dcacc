import Digests
import IPCProtocol
import SystemValues

/// A request that was a hit in memory, and the answer that it got.
final class RepeatedRequest: Sendable {
    /// Who asked.
    let uid: UInt32
    /// The request's text behind its id.
    let text: [UInt8]
    /// The original that it led to.
    let key: OriginalKey
    let buffer: BufferID
    let bytes: Int
    /// From when on it would get another answer.
    let freshUntil: Instant
    /// What of the index this is true of.
    let revision: Int
    /// The answer behind its id: with the buffer's descriptor, and without.
    let answer: [UInt8]
    let answerWithDescriptor: [UInt8]

    init(
        uid: UInt32, text: [UInt8], key: OriginalKey, image: ImageReply, buffer: BufferID, freshUntil: Instant,
        revision: Int
    ) {
        self.uid = uid
        self.text = text
        self.key = key
        self.buffer = buffer
        self.freshUntil = freshUntil
        self.revision = revision
        bytes = image.bytes
        var image = image
        image.descriptors = 0
        answer = Reply.restOfImage(image)
        image.descriptors = 1
        answerWithDescriptor = Reply.restOfImage(image)
    }
}

/// The requests that were hits not long ago, found by their text: the same request again need not be read, keyed and
/// looked up. A table of fixed size, in which the later takes the place of the earlier. What comes only once is not worth
/// its answer's writing: it is kept from the second time on.
struct RepeatedRequests {
    /// A power of two.
    private static let capacity = 4096

    /// So that nobody chooses whose place he takes.
    private let seed = UInt64.random(in: .min ... .max)
    private var requests: [RepeatedRequest?] = []
    /// The hashes of the texts that came last to each place.
    private var seen: [Int] = []

    /// What this user got for this text; it may no longer be what he would get.
    func find(_ text: ArraySlice<UInt8>, uid: UInt32) -> RepeatedRequest? {
        if requests.isEmpty { return nil }
        let place = hash(of: text, uid: uid) & (Self.capacity - 1)
        guard let found = requests[place], found.uid == uid, text.hasSameBytes(as: found.text) else { return nil }
        return found
    }

    /// Keeps what `request` makes, if the text came before.
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

    private func hash(of text: ArraySlice<UInt8>, uid: UInt32) -> Int {
        let hash = unsafe text.withUnsafeBytes { unsafe FoldedHash.hash($0, seed: seed ^ UInt64(uid)) }
        return Int(truncatingIfNeeded: hash)
    }
}
