import LinuxSystem
import SharedCache
import WorkerProtocol

/// Memory that a decode worker writes small results to, and from which the broker copies them. Its pages are used again
/// and again: pages of a new memfd take longer than a small image's decoding.
///
/// The worker may write to it at any time, so a result is copied once, and nothing is read from it twice.
final class WorkerMemory {
    /// A part for one result, which is free again with the last reference.
    final class Region {
        let place: ResultPlace
        private let memory: WorkerMemory

        fileprivate init(_ place: ResultPlace, of memory: WorkerMemory) { (self.place, self.memory) = (place, memory) }

        deinit { memory.used.removeAll { $0.offset == place.offset } }

        /// Copies the first bytes of it, as many as `target` has.
        func copy(to target: UnsafeMutableRawBufferPointer) throws(SystemError) {
            let count = unsafe try memory.file.read(into: target, at: place.offset)
            if count < target.count { throw SystemError("pread", code: SystemError.invalidArgument) }
        }
    }

    /// The memfd, for the worker.
    let file: FileDescriptor
    /// The parts in use, by their places.
    private var used: [ResultPlace] = []

    /// Its bytes; only those that were written take memory.
    private static let size = 8 << 20

    init() throws(SystemError) {
        file = try WritableBuffer.reusable(name: "imgbroker-results", size: Self.size)
    }

    /// Returns the first free part of `count` bytes; nil without enough room.
    func region(of count: Int) -> Region? {
        var start = 0
        var index = 0
        for place in used {
            if place.offset - start >= count { break }
            start = place.offset + place.room
            index += 1
        }
        guard count <= Self.size - start else { return nil }
        let place = ResultPlace(offset: start, room: count)
        used.insert(place, at: index)
        return Region(place, of: self)
    }
}
