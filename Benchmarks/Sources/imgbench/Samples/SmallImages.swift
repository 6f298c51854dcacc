import CReference
import Dispatch
import Foundation
import Synchronization

/// A folder of JPEGs of 64 to 256 pixels a side, each with another content: the avatars of a feed. Their names are 0, 1, 2 ….
struct SmallImages {
    let folder: String
    let count: Int

    init(_ count: Int) throws {
        let folder = NSTemporaryDirectory() + "imgbench-\(getpid()).small"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let failures = Atomic(0)
        DispatchQueue.concurrentPerform(iterations: count) { number in
            if cref_write_portrait("\(folder)/\(number)", UInt32(number)) != 0 {
                failures.add(1, ordering: .relaxed)
            }
        }
        guard failures.load(ordering: .relaxed) == 0 else { throw Failure("\(folder) cannot be written") }
        self.folder = folder
        self.count = count
    }

    func remove() { try? FileManager.default.removeItem(atPath: folder) }
}
