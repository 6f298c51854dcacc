public import IPCProtocol
public import LinuxSystem
internal import SharedCache

// Local files. Their descriptors are sent to the broker, which opens no path: the open file is the permission to read
// it.
extension ImageBroker {
    /// Loads the image in the file at `path` and waits for it.
    ///
    /// - Parameters:
    ///   - path: the path of a regular file.
    ///   - options: the variant, and how to load it. Options of HTTP (`headers`, `credentials`, `cookies`, `cacheKey`,
    ///     `allowInvalidCertificates`, `staleFirst`, `timeoutMs`) are refused with `bad-request`.
    /// - Returns: the image. All clients that load the same unchanged file share its bytes.
    /// - Throws: `ClientError`; `system` when the file cannot be opened.
    public func get(path: String, _ options: GetOptions = GetOptions()) throws(ClientError) -> BrokerImage {
        try get(file: try LocalFile.open(path), name: LocalFile.name(ofPath: path), options)
    }

    /// Loads the image in a regular file that is open for reading, and waits for it. The position in the file does not
    /// matter, and stays as it is.
    ///
    /// - Parameters:
    ///   - file: the open file.
    ///   - name: the name in the broker's events, at most 255 bytes.
    ///   - options: as those of `get(path:)`.
    ///   - progress: called with the number of bytes read so far, and with their total.
    public func get(
        file: FileDescriptor, name: String? = nil, _ options: GetOptions = GetOptions(),
        progress: ((Int, Int?) -> Void)? = nil
    ) throws(ClientError) -> BrokerImage {
        if let image = kept(file: file, options) { return image }
        return try load(options, partial: nil, progress: progress) { (options) throws(ClientError) in
            try send(getFile: file, name: name, options)
        }
    }

    /// Loads the image in encoded bytes, such as an upload or a message's attachment, and waits for it.
    ///
    /// - Parameters:
    ///   - bytes: the encoded image, which is copied once.
    ///   - name: the name in the broker's events, at most 255 bytes.
    ///   - options: as those of `get(path:)`.
    /// - Returns: the image. All clients that load the same bytes share it.
    /// - Throws: `ClientError`; `system` when the bytes cannot be copied.
    public func get(
        bytes: some Collection<UInt8>, name: String? = nil, _ options: GetOptions = GetOptions()
    ) throws(ClientError) -> BrokerImage {
        try get(file: try SealedBuffer.copy(of: bytes).descriptor, name: name, options)
    }

    /// Queries whether the image in a file is cached, in which tier.
    public func query(file: FileDescriptor, _ options: GetOptions = GetOptions()) throws(ClientError) -> CacheStatus {
        try perform(.query(file, options))
    }

    /// Removes all variants of the image in a file from the cache; the file stays. Returns the number of originals
    /// removed.
    public func remove(file: FileDescriptor) throws(ClientError) -> Int {
        try perform(.remove(file))
    }
}

extension LocalFile {
    /// Opens the file at a path of this process.
    static func open(_ path: String) throws(ClientError) -> FileDescriptor {
        do { return try FileDescriptor.open(readingAt: path) } catch { throw .system(error) }
    }

    /// The last component of a path, shortened to the length of a name.
    package static func name(ofPath path: String) -> String? {
        guard let last = path.split(separator: "/").last else { return nil }
        var name = String(last)
        while name.utf8.count > longestName { name.removeLast() }
        return name
    }
}
