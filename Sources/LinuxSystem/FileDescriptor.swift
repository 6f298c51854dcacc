internal import CLinux
internal import Glibc

/// An open file descriptor, closed when its last holder lets go of it.
///
/// Descriptors are held by tables, queues of frames to send and buffers alike, so ownership is shared: a reference
/// count is exactly the bookkeeping needed, and no path can forget to close.
public final class FileDescriptor: Sendable {
    /// The number the kernel knows it by. Valid as long as this object lives.
    public let raw: Int32

    /// Takes ownership of an open descriptor.
    public init(owning raw: Int32) {
        self.raw = raw
    }

    deinit {
        close(raw)
    }

    /// Opens `path` for reading.
    ///
    /// - Throws: `SystemError` of `open`.
    public static func open(readingAt path: String) throws(SystemError) -> FileDescriptor {
        FileDescriptor(owning: try retrying("open") { unsafe clinux_open(path, O_RDONLY | O_CLOEXEC, 0) })
    }

    /// Creates (or empties) the file at `path` and opens it for writing.
    ///
    /// - Throws: `SystemError` of `open`.
    package static func create(at path: String, mode: UInt32 = 0o666) throws(SystemError) -> FileDescriptor {
        let flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC
        return FileDescriptor(owning: try retrying("open") { unsafe clinux_open(path, flags, mode) })
    }

    /// A second descriptor for the same open file, closed on exec.
    ///
    /// - Throws: `SystemError` of `fcntl`.
    package func duplicate() throws(SystemError) -> FileDescriptor {
        FileDescriptor(owning: try retrying("fcntl") { clinux_duplicate(raw) })
    }

    /// Makes this number mean the open file of `other`; what it meant before is closed.
    ///
    /// - Throws: `SystemError` of `dup3`.
    package func replace(with other: FileDescriptor) throws(SystemError) {
        try retrying("dup3") { clinux_replace(other.raw, raw) }
    }

    /// The file's size in bytes.
    ///
    /// - Throws: `SystemError` of `fstat`.
    public func size() throws(SystemError) -> Int {
        var status = stat()
        try retrying("fstat") { unsafe fstat(raw, &status) }
        return Int(status.st_size)
    }

    /// Makes the file `size` bytes long.
    ///
    /// - Throws: `SystemError` of `ftruncate`.
    package func truncate(to size: Int) throws(SystemError) {
        try retrying("ftruncate") { ftruncate(raw, off_t(size)) }
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// - Throws: `SystemError` of `pwrite`; some of the bytes may have been written.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(SystemError) {
        var written = 0
        while written < bytes.count {
            let start = unsafe bytes.baseAddress! + written
            let left = bytes.count - written
            written += try retrying("pwrite") { unsafe pwrite(raw, start, left, off_t(offset + written)) }
        }
    }

    /// Fills `buffer` from `offset` on and returns how many bytes there were.
    ///
    /// - Throws: `SystemError` of `pread`.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws(SystemError) -> Int {
        var filled = 0
        while filled < buffer.count {
            let start = unsafe buffer.baseAddress! + filled
            let left = buffer.count - filled
            let count = try retrying("pread") { unsafe pread(raw, start, left, off_t(offset + filled)) }
            if count == 0 { break }
            filled += count
        }
        return filled
    }

    /// All bytes from where it stands to the end, as text; of a pipe or a terminal, too.
    ///
    /// - Throws: `SystemError` of `read`: `EISDIR` for a directory.
    package func readToEnd() throws(SystemError) -> String {
        var bytes: [UInt8] = []
        var failure: SystemError?
        unsafe withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 16) { buffer in
            do throws(SystemError) {
                while true {
                    let count = try retrying("read") { unsafe Glibc.read(raw, buffer.baseAddress!, buffer.count) }
                    if count == 0 { break }
                    unsafe bytes.append(contentsOf: buffer.prefix(count))
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Makes reads and writes return at once where they would wait.
    ///
    /// - Throws: `SystemError` of `fcntl`.
    package func setNonBlocking() throws(SystemError) {
        try retrying("fcntl") { clinux_set_nonblocking(raw) }
    }

    /// Whether the file lies in memory (tmpfs, memfd), so that reading it waits for no disk and no other process.
    package var isInMemory: Bool { clinux_is_in_memory(raw) != 0 }

    /// Writes `count` bytes of `source`, from `offset` on, at `place` in this file. Returns how many there were.
    ///
    /// - Throws: `SystemError` of `pread` or `pwrite`.
    @discardableResult
    package func copy(
        _ count: Int, from source: FileDescriptor, at offset: Int, to place: Int = 0
    ) throws(SystemError) -> Int {
        var copied = 0
        var failure: SystemError?
        unsafe withUnsafeTemporaryAllocation(byteCount: 1 << 18, alignment: 16) { buffer in
            do throws(SystemError) {
                while copied < count {
                    let part = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(count - copied))
                    let read = unsafe try source.read(into: part, at: offset + copied)
                    if read == 0 { break }
                    unsafe try write(UnsafeRawBufferPointer(rebasing: part.prefix(read)), at: place + copied)
                    copied += read
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return copied
    }

    /// Gives the file at `path` another name, in place of what has that name.
    ///
    /// - Throws: `SystemError` of `rename`.
    package static func rename(_ path: String, to target: String) throws(SystemError) {
        try retrying("rename") { unsafe Glibc.rename(path, target) }
    }

    /// Removes the file at `path`.
    ///
    /// - Throws: `SystemError` of `unlink`.
    package static func remove(_ path: String) throws(SystemError) {
        try retrying("unlink") { unsafe unlink(path) }
    }
}
