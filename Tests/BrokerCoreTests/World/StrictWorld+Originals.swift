import Digests
import Testing

@testable import BrokerCore

// Checks that the bytes of originals are in memory only while they are needed.
extension StrictWorld {
    /// Records that the disk tier holds an original.
    mutating func noteOnDisk(key: String, digest: String) { onDisk.insert("\(key) \(digest)") }

    /// Checks that an original on disk is in memory only while it is held or if it was requested as an original.
    /// Computed from the entries of the index, independently of its own accounting.
    func checkOriginals(after event: Event) {
        let index = state.memory
        var isNeeded: [ContentKey: Bool] = [:]
        for key in index.keys(where: { _ in true }) {
            guard let original = index.original(key) else { continue }
            if original.isOnDisk, !onDisk.contains("\(key.word) \(original.content.digest.hexadecimal)") {
                complain("after \(event): the disk tier is said to have what it has not")
            }
            isNeeded[original.content] = isNeeded[original.content, default: false] || !original.isOnDisk
        }
        for buffer in index.bufferIDs.compactMap({ index.record(of: $0) }) where buffer.variant.form == .original {
            if buffer.holders == 0, !buffer.wasRequested, isNeeded[buffer.variant.content] != true {
                complain("after \(event): an original that is on disk and of no use")
            }
        }
    }
}
