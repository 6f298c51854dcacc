import Digests
import Testing

@testable import BrokerCore

// The bytes of originals: in memory where they are needed, and nowhere else.
extension StrictWorld {
    /// Notes that the disk tier has an original.
    mutating func noteOnDisk(key: String, digest: String) { onDisk.insert("\(key) \(digest)") }

    /// What the disk tier has is in memory only if somebody reads it, or has asked for it as such. Counted here from
    /// what the index holds, and not in the index's own words.
    func checkOriginals(after event: Event) {
        let index = state.memory
        var isNeeded: [ContentDigest: Bool] = [:]
        for key in index.keys(where: { _ in true }) {
            guard let original = index.original(key) else { continue }
            if original.isOnDisk, !onDisk.contains("\(key.word) \(original.digest.hexadecimal)") {
                complain("after \(event): the disk tier is said to have what it has not")
            }
            isNeeded[original.digest] = isNeeded[original.digest, default: false] || !original.isOnDisk
        }
        for buffer in index.bufferIDs.compactMap(index.record) where buffer.variant.form == .original {
            if buffer.holders == 0, !buffer.wasRequested, isNeeded[buffer.variant.digest] != true {
                complain("after \(event): an original that is on disk and of no use")
            }
        }
    }
}
