internal import CLinux
internal import Glibc

/// What this process is, and what it may do.
package enum CurrentProcess {
    /// Its id.
    package static var pid: Int32 { getpid() }
    /// The id of the process that started it.
    package static var parent: Int32 { getppid() }
    /// Its effective user id.
    package static var uid: UInt32 { geteuid() }

    /// Raises the number of descriptors it may open to the most allowed, and returns that.
    package static func raiseDescriptorLimit() -> Int {
        clinux_raise_descriptor_limit()
    }

    /// The user with `name`, or with that number; nil when there is none.
    package static func findUser(_ name: String) -> (uid: UInt32, gid: UInt32)? {
        var (uid, gid): (uid_t, gid_t) = (0, 0)
        guard unsafe clinux_find_user(name, &uid, &gid) == 0 else { return nil }
        return (uid, gid)
    }

    /// The number of the group with `name`, or with that number; nil when there is none.
    package static func findGroup(_ name: String) -> UInt32? {
        var gid: gid_t = 0
        guard unsafe clinux_find_group(name, &gid) == 0 else { return nil }
        return gid
    }

    /// Becomes another user for good, without supplementary groups.
    ///
    /// - Throws: `SystemError` of `setresuid`.
    package static func become(uid: UInt32, gid: UInt32) throws(SystemError) {
        try retrying("setresuid") { clinux_become_user(uid, gid) }
    }

    /// Makes the kernel end this process with its parent. Changing the user undoes it, so that comes first.
    ///
    /// - Throws: `SystemError` of `prctl`.
    package static func dieWithParent() throws(SystemError) {
        try retrying("prctl") { clinux_die_with_parent() }
    }

    /// The path of the running program.
    package static var executablePath: String? {
        let path = unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 4096) { buffer in
            let count = unsafe readlink("/proc/self/exe", buffer.baseAddress!, buffer.count)
            return count > 0 ? unsafe String(decoding: buffer.prefix(count), as: UTF8.self) : nil
        }
        return path
    }

    /// The value of an environment variable.
    package static func environment(_ name: String) -> String? {
        unsafe getenv(name).map { unsafe String(cString: $0) }
    }

    /// The descriptors it has open.
    package static var openDescriptors: Int {
        guard let directory = unsafe opendir("/proc/self/fd") else { return 0 }
        defer { unsafe closedir(directory) }
        var count = 0
        while unsafe readdir(directory) != nil { count += 1 }
        // Without ".", ".." and the directory itself.
        return count - 3
    }

    /// The columns of the terminal behind standard error; nil when it is none.
    package static var terminalColumns: Int? {
        let columns = Int(clinux_terminal_columns(2))
        return columns > 0 ? columns : nil
    }

    /// Writes `text` to standard error.
    package static func writeToStandardError(_ text: String) {
        var text = text
        text.withUTF8 { _ = unsafe write(2, $0.baseAddress, $0.count) }
    }
}

extension CurrentProcess {
    /// Whether anything has this path.
    package static func exists(_ path: String) -> Bool {
        unsafe access(path, F_OK) == 0
    }

    /// Whether this process may write to `path`, a directory mostly.
    package static func mayWrite(to path: String) -> Bool {
        unsafe access(path, W_OK) == 0
    }
}

extension CurrentProcess {
    /// The processors that it may run on.
    package static var processors: Int {
        max(1, Int(clinux_processors()))
    }

    /// Writes `text` to standard output.
    package static func writeToStandardOutput(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            var written = 0
            while written < bytes.count {
                let count = unsafe write(1, bytes.baseAddress! + written, bytes.count - written)
                if count <= 0 { return }
                written += count
            }
        }
    }
}

extension CurrentProcess {
    /// Makes a directory that belongs to `owner`, unless there is one.
    ///
    /// - Throws: `SystemError` of `mkdir` or `chown`.
    package static func makeDirectory(_ path: String, owner: (uid: UInt32, gid: UInt32)) throws(SystemError) {
        if exists(path) { return }
        try retrying("mkdir") { unsafe mkdir(path, 0o700) }
        try retrying("chown") { unsafe chown(path, owner.uid, owner.gid) }
    }
}
