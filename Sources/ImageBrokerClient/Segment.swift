internal import IPCProtocol
internal import LinuxSystem
internal import SharedCache

/// A segment that a connection has mapped. The images in it are views of the mapping, which lasts as long as the
/// connection uses it or one of them exists.
final class Segment: Sendable {
    let mapping: Mapping
    /// Kept open because leases end with their connection, and the broker may change the bytes of an image after its
    /// lease.
    private let socket: FileDescriptor

    init(_ descriptor: FileDescriptor, size: Int, of socket: FileDescriptor) throws(SystemError) {
        mapping = try Mapping(segment: descriptor, size: size)
        self.socket = socket
    }
}

/// The segments whose descriptors the broker has sent over a connection, and the leases in them.
struct SegmentTable {
    private struct Entry {
        /// The mapping, or the error that prevented it.
        var segment: Result<Segment, ClientError>
        /// The number of leases that were granted and not released.
        var leases = 0
    }

    private let socket: FileDescriptor
    private var entries: [Int: Entry] = [:]
    /// The segments to forget once they have no lease: those that have ended, and those that could not be mapped.
    private var forgettable: Set<Int> = []

    /// Creates an empty table for the connection over `socket`.
    init(_ socket: FileDescriptor) {
        self.socket = socket
    }

    /// Adds the lease of an image in a segment, which is mapped if its descriptor has come for the first time.
    ///
    /// - Parameters:
    ///   - size: the segment's, if its descriptor has come; `descriptor` is nil then if it was lost.
    ///   - end: the position of the first byte after the image.
    /// - Returns: the segment, or the error for an image in one that could not be mapped.
    /// - Throws: `ClientError.protocolViolation`.
    mutating func addLease(
        in number: Int, size: Int?, _ descriptor: FileDescriptor?, end: Int
    ) throws(ClientError) -> Result<Segment, ClientError> {
        var entry = entries[number]
        if let size, (try? entry?.segment.get()) == nil {
            entry = Entry(segment: try map(descriptor, size: size), leases: entry?.leases ?? 0)
        }
        guard var entry else { throw .protocolViolation("an unknown segment") }
        if case .success(let segment) = entry.segment, segment.mapping.count < end {
            throw .protocolViolation("an image is beyond its segment")
        }
        entry.leases += 1
        entries[number] = entry
        // It comes with its descriptor again after the broker has read that it is not mapped.
        if case .failure = entry.segment { forgettable.insert(number) }
        return entry.segment
    }

    private func map(_ descriptor: FileDescriptor?, size: Int) throws(ClientError) -> Result<Segment, ClientError> {
        guard let descriptor else { return .failure(.descriptorLost) }
        guard descriptor.isSegment(of: size) else {
            throw .protocolViolation("a segment is not sealed, or has another size")
        }
        do { return .success(try Segment(descriptor, size: size, of: socket)) } catch {
            return .failure(.system(error))
        }
    }

    mutating func removeLease(in number: Int) { entries[number]?.leases -= 1 }

    /// Notes that no further image will be in a segment.
    mutating func end(_ number: Int) {
        if entries[number] != nil { forgettable.insert(number) }
    }

    /// Whether images in segments are in use.
    var hasLeases: Bool { entries.values.contains { $0.leases > 0 } }

    /// Whether `takeForgotten` returns segments.
    var hasForgotten: Bool { forgettable.contains { entries[$0]?.leases == 0 } }

    /// Drops and returns the segments that are not needed any more.
    mutating func takeForgotten() -> [Int] {
        if forgettable.isEmpty { return [] }
        let forgotten = forgettable.filter { entries[$0]?.leases == 0 }
        forgettable.subtract(forgotten)
        // Replies in flight may refer to one that could not be mapped, and none refers to one that has ended.
        for number in forgotten { if case .success = entries[number]?.segment { entries[number] = nil } }
        return forgotten.sorted()
    }
}
