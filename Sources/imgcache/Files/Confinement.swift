import LinuxSystem
import SystemValues

/// The directories that a confined process can reach: those that had the paths when it entered its sandbox. A directory
/// that replaces one of them later cannot be reached.
struct Confinement {
    /// The time of entry.
    let since = Instant.now
    private var directories: [String: FileSystem.Status] = [:]

    /// Records the directories that have these paths now.
    init(_ paths: [String]) {
        for path in paths { directories[path] = (try? FileSystem.status(of: path)) ?? nil }
    }

    /// Whether the directory at this path is the one that can be reached. A path without a directory, then as now,
    /// counts as reachable.
    func holds(_ path: String) -> Bool {
        switch (directories[path], (try? FileSystem.status(of: path)) ?? nil) {
        // A path through a descriptor leads to a removed directory, too.
        case (let entered?, let present?): entered.isSameFile(as: present) && present.links > 0
        case (nil, nil): true
        default: false
        }
    }
}
