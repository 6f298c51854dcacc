import LinuxSystem

/// What a process in its sandbox can reach: the directories that had the paths when it entered. What is made in their
/// place later is others.
struct Confinement {
    /// When it entered.
    let since = Instant.now
    private var directories: [String: FileSystem.Status] = [:]

    init(_ options: Store.Options) {
        for path in [options.directory] + options.extraDirectories {
            directories[path] = (try? FileSystem.status(of: path)) ?? nil
        }
    }

    /// Whether the directory that has this path now is the one that can be reached. None is as none was.
    func holds(_ path: String) -> Bool {
        switch (directories[path], (try? FileSystem.status(of: path)) ?? nil) {
        case (let entered?, let present?): entered.isSameFile(as: present)
        case (nil, nil): true
        default: false
        }
    }
}
