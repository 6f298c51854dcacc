/// The control group that bounds this process's memory, of version 2 or 1, as far as it is visible in a container.
package struct MemoryGroup: Equatable {
    /// The least limit of the group and of those above it, in bytes; nil when memory is not limited.
    package let limit: Int?
    /// The file with the number of processes of the group that the kernel has killed for want of memory ("oom_kill").
    package let killsPath: String
    /// The file that reports memory pressure (PSI); version 1 has none.
    package let pressurePath: String?

    /// The group of this process; nil without one, or when it cannot be read.
    package static var own: MemoryGroup? {
        MemoryGroup { try? FileDescriptor.open(readingAt: $0).readToEnd() }
    }

    /// Finds the group of this process in the files of `/proc` and of the mounted hierarchies, which `read` returns.
    package init?(read: (String) -> String?) {
        guard let groups = read("/proc/self/cgroup"), let mounts = read("/proc/self/mountinfo") else { return nil }
        // Version 1 first: where both are mounted, a line of its own says that it controls memory.
        for isOld in [true, false] {
            guard let path = Self.path(in: groups, isOld: isOld), let mount = Mount(in: mounts, isOld: isOld) else {
                continue
            }
            let directory = mount.directory(of: path)
            let kills = directory + (isOld ? "/memory.oom_control" : "/memory.events")
            // The root of version 2 has no limit and no such file.
            let counts = read(kills)?.split(separator: "\n") ?? []
            guard counts.contains(where: { $0.hasPrefix("oom_kill ") }) else { continue }
            killsPath = kills
            pressurePath = isOld ? nil : directory + "/memory.pressure"
            limit = Self.limit(of: directory, below: mount.point, isOld: isOld, read: read)
            return
        }
        return nil
    }

    /// The path of the group in its hierarchy: "4:memory:/a" in version 1, "0::/a" in version 2.
    private static func path(in groups: String, isOld: Bool) -> Substring? {
        for line in groups.split(separator: "\n") {
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            if isOld ? fields[1].split(separator: ",").contains("memory") : fields[0] == "0" { return fields[2] }
        }
        return nil
    }

    /// The least limit from `directory` up to the mount point.
    private static func limit(of directory: String, below top: String, isOld: Bool, read: (String) -> String?) -> Int? {
        let names = isOld ? ["memory.limit_in_bytes"] : ["memory.max", "memory.high"]
        var (directory, least) = (directory[...], Int?.none)
        while directory.count >= top.count {
            for name in names {
                let text = read(directory + "/" + name)?.prefix { $0 != "\n" }
                // "max", or a number near the largest one, for no limit.
                if let bytes = text.flatMap({ Int($0) }), bytes < 1 << 60 { least = min(least ?? .max, bytes) }
            }
            guard let slash = directory.lastIndex(of: "/") else { break }
            directory = directory[..<slash]
        }
        return least
    }

    /// Where the hierarchy is mounted.
    private struct Mount {
        let point: String
        /// The group that is the mount's root, which in a container is often the container's own.
        let root: Substring

        /// Reads the hierarchy's line of mountinfo: "36 25 0:31 / /sys/fs/cgroup rw,… - cgroup2 cgroup2 rw,…".
        init?(in mounts: String, isOld: Bool) {
            for line in mounts.split(separator: "\n") {
                let fields = line.split(separator: " ")
                guard let separator = fields.firstIndex(of: "-"), separator > 4, fields.count > separator + 3 else {
                    continue
                }
                let isMatch =
                    isOld
                    ? fields[separator + 1] == "cgroup"
                        && fields[separator + 3].split(separator: ",").contains("memory")
                    : fields[separator + 1] == "cgroup2"
                if isMatch {
                    (point, root) = (String(fields[4]), fields[3])
                    return
                }
            }
            return nil
        }

        /// The directory of a group. A group outside of the mount is not visible; its nearest visible one is the root.
        func directory(of path: Substring) -> String {
            let isInside = root == "/" || path == root || path.hasPrefix(root + "/")
            let inner = !isInside || path.hasPrefix("/..") ? "" : root == "/" ? path : path.dropFirst(root.count)
            return inner == "/" ? point : point + inner
        }
    }
}

/// A trigger of the kernel's (PSI) that fires when processes wait for memory for a fifth of two seconds, at most once
/// in two seconds.
package struct MemoryPressure {
    let descriptor: FileDescriptor

    /// Sets a trigger for the group, or for the whole machine where that is not possible; nil without either.
    package init?(of group: MemoryGroup?) {
        // Only windows of whole multiples of two seconds are for everyone.
        let trigger = Array("some 400000 2000000\0".utf8)
        for path in [group?.pressurePath, "/proc/pressure/memory"].compactMap(\.self) {
            guard let file = try? FileDescriptor.open(updatingAt: path),
                unsafe (try? trigger.withUnsafeBytes { unsafe try file.write($0) }) != nil
            else { continue }
            descriptor = file
            return
        }
        return nil
    }
}
