import DiskRecords

/// Further cache directories, which are only read: entries are found by path, and never locked, written or indexed.
/// They may be of another machine, so originals of single users are not found in them.
struct ExtraDirectories {
    /// The directories in search order.
    let directories: [CacheDirectory]
    /// The users whose entries of a URL are hidden; nil stands for all users.
    private var hidden: [String: Set<UInt32?>] = [:]
    private var hiddenCount = 0
    /// The capacity of `hidden`. Beyond it nothing is found in these directories any more, so that removed entries
    /// cannot reappear.
    private let maximumHidden: Int
    private var reported: Set<String> = []
    /// The capacity of `reported`.
    private static let maximumReported = 10_000

    init(_ paths: [String], maximumHidden: Int = 100_000) {
        self.maximumHidden = maximumHidden
        directories = paths.map { CacheDirectory(path: $0) }
    }

    /// Hides the entries of a URL that are public or belong to `owner`; without an owner, all of them.
    mutating func hide(url: String, owner: UInt32?) {
        // The URL is remembered, because these directories have no index from URLs to keys.
        guard !directories.isEmpty, hiddenCount <= maximumHidden else { return }
        if hidden[url, default: []].insert(owner).inserted { hiddenCount += 1 }
        if hiddenCount > maximumHidden { hidden = [:] }
    }

    func hides(_ trailer: EntryTrailer) -> Bool {
        if hiddenCount > maximumHidden { return true }
        guard case .original(let record) = trailer.content, let owners = hidden[record.url] else { return false }
        return record.owner == nil || owners.contains(nil) || owners.contains(record.owner)
    }

    /// Whether a problem of this file is reported for the first time.
    mutating func isFirstReport(of path: String) -> Bool {
        reported.count < Self.maximumReported && reported.insert(path).inserted
    }
}
