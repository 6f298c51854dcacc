internal import CLinux
package import LinuxSystem

/// A segment of the broker's: shared memory in which many images lie. No other process can write to it or resize it,
/// because its only writable mapping is older than its seals.
@safe
package final class Segment {
    /// The memfd, for clients.
    package let descriptor: FileDescriptor
    package let size: Int
    private let mapping: SegmentMapping

    /// Makes a segment of `size` bytes, of which none has pages yet.
    package init(size: Int) throws(SystemError) {
        descriptor = try WritableBuffer(name: "imgbroker-segment", size: size).descriptor
        self.size = size
        mapping = try SegmentMapping(descriptor, size: size, isWritable: true)
        try retrying("fcntl") { clinux_add_seals(descriptor.raw, clinux_seal_foreign_writes()) }
    }

    /// Takes over a segment of `size` bytes that another process has made, to read from it. Throws `SystemError` of
    /// `mmap`; `EINVAL` when it is no segment of this size.
    package init(inherited descriptor: FileDescriptor, size: Int) throws(SystemError) {
        guard descriptor.isSegment(of: size) else { throw SystemError("fcntl", code: SystemError.invalidArgument) }
        (self.descriptor, self.size) = (descriptor, size)
        mapping = try SegmentMapping(descriptor, size: size, isWritable: false)
    }

    /// Passes the bytes in `range` to `fill`. They have pages, so that lack of memory is an error here and no signal.
    /// Throws `SystemError` of `fallocate`, or the error of `fill`; `EINVAL` for an inherited segment.
    package func write(
        in range: Range<Int>, _ fill: (UnsafeMutableRawBufferPointer) throws(SystemError) -> Void
    ) throws(SystemError) {
        try mapping.prepare(upTo: range.upperBound)
        try unsafe fill(mapping.bytes(in: range))
    }

    /// Passes the bytes in `range`, which were written before, to `body`.
    package func withBytes<Value>(in range: Range<Int>, _ body: (UnsafeRawBufferPointer) throws -> Value) rethrows
        -> Value
    {
        try unsafe body(UnsafeRawBufferPointer(mapping.bytes(in: range)))
    }

    /// Copies bytes from another place, of this segment or another, to `offset`. The places do not overlap.
    package func copy(_ range: Range<Int>, of source: Segment, to offset: Int) throws(SystemError) {
        unsafe try write(in: offset..<offset + range.count) { target in
            unsafe target.copyMemory(from: UnsafeRawBufferPointer(source.mapping.bytes(in: range)))
        }
    }
}
