import IPCProtocol

/// Further directories of the same form, which are only read: found in by path, never locked, written or indexed.
struct ExtraDirectories {
    /// In the order in which they are looked into.
    let directories: [CacheDirectory]
    /// Of which users entries are not to be found any more, by URL; nil is all users.
    private var hidden: [String: Set<UInt32?>] = [:]
    private var hiddenCount = 0
    /// How many are remembered. Beyond, nothing is found here any more: what was removed must not come back.
    private let maximumHidden: Int
    private var reported: Set<String> = []
    /// The most files that are remembered to have been reported.
    private static let maximumReported = 10_000

    init(_ paths: [String], maximumHidden: Int = 100_000) {
        self.maximumHidden = maximumHidden
        directories = paths.map { CacheDirectory(path: $0) }
    }

    /// From now on, the entries of a URL that belong to `owner` or to all (without an owner: all of them) are not found.
    mutating func hide(url: String, owner: UInt32?) {
        // Which keys a URL has here nobody knows, so the URL itself is remembered.
        guard !directories.isEmpty, hiddenCount <= maximumHidden else { return }
        if hidden[url, default: []].insert(owner).inserted { hiddenCount += 1 }
        if hiddenCount > maximumHidden { hidden = [:] }
    }

    /// Whether an entry is not to be found.
    func hides(_ trailer: EntryTrailer) -> Bool {
        if hiddenCount > maximumHidden { return true }
        guard case .original(let record) = trailer.content, let owners = hidden[record.url] else { return false }
        return record.owner == nil || owners.contains(nil) || owners.contains(record.owner)
    }

    /// Whether what is wrong with a file has not been reported yet.
    mutating func isNews(_ path: String) -> Bool {
        reported.count < Self.maximumReported && reported.insert(path).inserted
    }
}
