import Digests
import Testing

@testable import imgbroker

// The bytes of originals: in memory where they are needed, and nowhere else.
extension StrictWorld {
    /// Notes that the disk tier has an original.
    mutating func noteOnDisk(key: String, digest: String) { onDisk.insert("\(key) \(digest)") }

    /// What the disk tier has is in memory only if somebody reads it, or has asked for it as such. Counted here from
    /// what the index holds, and not in the index's own words.
    func checkOriginals(after event: Event) {
        let index = state.index
        var isNeeded: [UInt32: Bool] = [:]
        for original in index.originals {
            let digest = index.contents[Int(original.content)].key.hexadecimal
            if original.isOnDisk, !onDisk.contains("\(original.key.word) \(digest)") {
                complain("after \(event): the disk tier is said to have what it has not")
            }
            isNeeded[original.content] = isNeeded[original.content, default: false] || !original.isOnDisk
        }
        for buffer in index.buffers where index.forms[Int(buffer.form)].key == .original {
            if buffer.holders == 0, !buffer.wasAskedFor, isNeeded[buffer.content] != true {
                complain("after \(event): an original that is on disk and of no use")
            }
        }
    }
}
