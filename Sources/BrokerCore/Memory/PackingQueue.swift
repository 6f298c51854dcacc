import IPCProtocol

/// The buffers that may be packed, in the order of their last use as far as the CLOCK algorithm knows it: one that was used since
/// it entered the queue enters it once more. Each buffer is in it at most once; those that are gone are skipped.
struct PackingQueue {
    private var buffers: [BufferID] = []
    /// The index of the first one.
    private var first = 0

    var count: Int { buffers.count - first }

    mutating func add(_ buffer: BufferID) { buffers.append(buffer) }

    /// Removes the first buffer.
    mutating func popFirst() -> BufferID? {
        guard first < buffers.count else { return nil }
        defer {
            first += 1
            if first * 2 > buffers.count { dropPopped() }
        }
        return buffers[first]
    }

    /// Keeps only those for which `isKept` is true.
    mutating func filter(_ isKept: (BufferID) -> Bool) {
        dropPopped()
        buffers.removeAll { !isKept($0) }
    }

    private mutating func dropPopped() {
        buffers.removeFirst(first)
        first = 0
    }
}
