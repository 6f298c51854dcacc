internal import LinuxSystem

/// A body that is being received: in memory, until it has a file.
struct BodyFile: ~Copyable {
    private(set) var received: Int

    private var file: FileDescriptor?
    /// All received bytes, while there is no file.
    private var memory: [UInt8] = []

    /// A body whose first `received` bytes exist already in `file`; without one, it begins in memory.
    init(_ file: FileDescriptor?, received: Int) {
        self.file = file
        self.received = received
    }

    var isInMemory: Bool { file == nil }

    /// Goes on in a file, which gets the bytes that were received.
    mutating func move(to file: FileDescriptor) throws(SystemError) {
        guard isInMemory else { return }
        try file.write(memory.span, at: 0)
        self.file = file
        memory = []
    }

    /// Throws unless the bytes to be continued exist.
    func resume() throws(SystemError) {
        if try file?.size() ?? 0 < received { throw SystemError("resume", code: SystemError.invalidArgument) }
    }

    /// Discards all bytes, including those of an earlier transfer that were not counted.
    mutating func startOver() throws(SystemError) {
        received = 0
        memory = []
        if let file, try file.size() > 0 { try file.truncate(to: 0) }
    }

    mutating func reserve(_ count: Int) { if isInMemory { memory.reserveCapacity(count) } }

    /// Ends a complete body: seals its file, or returns its bytes. If sealing fails, the broker tries it, and finds out
    /// why.
    mutating func end() -> [UInt8]? {
        guard let file else {
            defer { memory = [] }
            return memory
        }
        try? file.seal()
        return nil
    }

    /// Appends bytes. When it throws, they do not count as received.
    mutating func append(_ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        if let file {
            try unsafe file.write(bytes, at: received)
        } else {
            unsafe memory.append(contentsOf: bytes)
        }
        received += bytes.count
    }
}
