internal import CLinux
internal import Glibc

/// The properties and rights of this process.
package enum CurrentProcess {
    package static var pid: Int32 { getpid() }
    package static var parent: Int32 { getppid() }
    /// The effective user id.
    package static var uid: UInt32 { geteuid() }

    /// Raises the soft limit of descriptors to the hard limit, and returns it.
    package static func raiseDescriptorLimit() -> Int { clinux_raise_descriptor_limit() }

    /// Asks the kernel to run this thread soon after each wake-up, for a short time (`sched_setattr`, Linux 6.12 or
    /// later): it then need not wait until a process that computes has used up its time slice. The share of the
    /// processor stays the same, and children do not inherit it. A failure is ignored, because everything works
    /// without.
    package static func preferShortTimeSlices() { _ = clinux_shorten_time_slice(100_000) }

    /// Opens `/dev/null` as each standard stream that is closed, so that no other file gets its number.
    package static func openStandardDescriptors() {
        // The lowest free number is used, so those below are open.
        for number in Int32(0)...2 where fcntl(number, F_GETFD) < 0 && lastErrorNumber() == EBADF {
            _ = unsafe open("/dev/null", O_RDWR)
        }
    }

    /// The user with a name or a number; nil when there is no such user.
    package static func findUser(_ name: String) -> (uid: UInt32, gid: UInt32)? {
        let entry = if let uid = UInt32(name) { unsafe getpwuid(uid) } else { unsafe getpwnam(name) }
        return unsafe entry.map { unsafe ($0.pointee.pw_uid, $0.pointee.pw_gid) }
    }

    package static func userName(_ uid: UInt32) -> String? {
        unsafe getpwuid(uid).map { unsafe String(cString: $0.pointee.pw_name) }
    }

    /// The number of the group with a name or a number; nil when there is no such group.
    package static func findGroup(_ name: String) -> UInt32? {
        let entry = if let gid = UInt32(name) { unsafe getgrgid(gid) } else { unsafe getgrnam(name) }
        return unsafe entry.map { unsafe $0.pointee.gr_gid }
    }

    /// The name of a group and its supplementary members; nil for an unknown group.
    package static func group(_ gid: UInt32) -> (name: String, members: [String])? {
        guard let entry = unsafe getgrgid(gid) else { return nil }
        return unsafe (String(cString: entry.pointee.gr_name), strings(entry.pointee.gr_mem))
    }

    /// The strings of a list that ends with a null pointer.
    private static func strings(_ list: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> [String] {
        var strings: [String] = []
        var next = unsafe list
        while let string = unsafe next.pointee {
            strings.append(unsafe String(cString: string))
            unsafe next += 1
        }
        return strings
    }

    /// Changes to another user irrevocably, without supplementary groups.
    package static func become(uid: UInt32, gid: UInt32) throws(SystemError) {
        try retrying("setresuid") { clinux_become_user(uid, gid) }
    }

    /// Makes the kernel kill this process when its parent exits. A change of user clears this, so call it afterwards.
    package static func dieWithParent() throws(SystemError) {
        try retrying("prctl") { clinux_die_with_parent() }
    }

    /// The path of the running program, which another file may have by now.
    package static var executablePath: String? {
        let path = unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 4096) { buffer in
            let count = unsafe readlink("/proc/self/exe", buffer.baseAddress!, buffer.count)
            return count > 0 ? unsafe String(decoding: buffer.prefix(count), as: UTF8.self) : nil
        }
        // The kernel's mark of a file that was removed.
        let mark = " (deleted)"
        return path.map { $0.hasSuffix(mark) && !exists($0) ? String($0.dropLast(mark.count)) : $0 }
    }

    package static func environment(_ name: String) -> String? {
        unsafe getenv(name).map { unsafe String(cString: $0) }
    }

    /// The environment, as `NAME=value`.
    package static var environmentWords: [String] { unsafe strings(environ) }

    package static var openDescriptors: Int {
        // Since Linux 6.2, the directory's size is their number.
        var status = stat()
        if unsafe stat("/proc/self/fd", &status) == 0, status.st_size > 0 { return Int(status.st_size) }
        guard let names = try? FileSystem.names(in: "/proc/self/fd") else { return 0 }
        // Without the directory itself.
        return names.count - 1
    }

    /// The device and the inode of standard error; nil if it is closed.
    package static var standardErrorIdentity: (device: UInt64, inode: UInt64)? {
        var status = stat()
        guard unsafe fstat(2, &status) == 0 else { return nil }
        return (UInt64(status.st_dev), UInt64(status.st_ino))
    }

    package static func writeToStandardError(_ text: String) {
        var text = text
        text.withUTF8 { _ = unsafe write(2, $0.baseAddress, $0.count) }
    }

    package static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

    package static func maySearch(_ path: String) -> Bool { unsafe access(path, X_OK) == 0 }

    package static func mayWrite(to path: String) -> Bool { unsafe access(path, W_OK) == 0 }

    /// The number of processors that this process may run on.
    package static var processors: Int { max(1, Int(clinux_processors())) }

    /// Returns whole pages of freed heap memory to the kernel.
    package static func returnFreedMemory() { malloc_trim(0) }

    /// Writes `text` to standard output. Throws `SystemError` of `write`: `ENOSPC` when the disk is full, `EPIPE` when
    /// no process reads any more.
    package static func writeToStandardOutput(_ text: String) throws(SystemError) {
        // Not to be closed.
        let output = FileDescriptor(owning: 1, disposal: { _ in })
        try unsafe Array(text.utf8).span.withUnsafeBytes { (bytes) throws(SystemError) in
            unsafe try output.write(bytes)
        }
    }

    /// Makes a directory that belongs to `owner`, unless it exists.
    package static func makeDirectory(_ path: String, owner: (uid: UInt32, gid: UInt32)) throws(SystemError) {
        if exists(path) { return }
        try retrying("mkdir") { unsafe mkdir(path, 0o700) }
        try retrying("chown") { unsafe chown(path, owner.uid, owner.gid) }
    }

    /// Lets this thread sleep. Returns false when a signal has ended the sleep.
    package static func pause(milliseconds: UInt32) -> Bool {
        poll(nil, 0, Int32(clamping: milliseconds)) == 0
    }

    /// Becomes the program at `path`, with this process's environment. The first argument is the program's name.
    package static func become(program path: String, _ arguments: [String]) throws(SystemError) -> Never {
        throw unsafe withCStrings(arguments) { arguments in
            _ = unsafe execv(path, arguments)
            return SystemError("execv")
        }
    }

    // MARK: The start of a worker

    /// Keeps the kernel from dumping this process's memory when it crashes, because it has data of users.
    package static func forbidCoreDumps() throws(SystemError) {
        try retrying("setrlimit") { clinux_forbid_core_dumps() }
    }

    /// Keeps others from reading files that this process creates, with any mode.
    package static func createFilesForOwnerOnly() { umask(0o077) }

    /// Makes the kernel's OOM killer prefer this process (`oom_score_adj`), because a worker is replaced at no cost. A
    /// failure is ignored. A change of user may take the right to it away, so call it before.
    package static func raiseOOMScore() {
        try? FileDescriptor.open("/proc/self/oom_score_adj", O_WRONLY).write("800".utf8Span.span, at: 0)
    }

    /// A digest of the program and its libraries, as 16 hexadecimal digits.
    package static var codeDigest: String {
        let digits = String(clinux_code_digest(), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Sets this process's name in lists of processes. The kernel keeps 15 bytes.
    package static func setName(_ name: String) { unsafe clinux_set_name(name) }

    /// Sets this process's name in lists of processes to that of its program, which the kernel does not know when the
    /// program was started by a descriptor.
    package static func setNameOfProgram() {
        let path = CommandLine.arguments.first ?? ""
        setName(String(path[(path.lastIndex(of: "/").map(path.index(after:)) ?? path.startIndex)...]))
    }

    /// Removes the last argument from this process's command line in lists of processes.
    package static func hideLastArgument() {
        guard CommandLine.argc > 1, let last = unsafe CommandLine.unsafeArgv[Int(CommandLine.argc) - 1] else { return }
        unsafe last.update(repeating: 0, count: strlen(last))
    }

    /// Forks a child of this process's parent, in a process group of its own. Returns its process id; nil in the child.
    /// The process must have one thread, because the child gets only the calling one.
    ///
    /// The C library's fork handlers do not run. With one thread they would only update the cached thread id, which the
    /// C library then takes from the parent where it does not ask the kernel.
    package static func forkSibling() throws(SystemError) -> Int32? {
        let pid = try retrying("clone") { clinux_fork_sibling() }
        return pid == 0 ? nil : pid
    }

    package static func exit(_ status: Int32) -> Never { Glibc.exit(status) }

    /// Exits without the handlers that libraries have registered (`_exit`).
    package static func exitWithoutHandlers(_ status: Int32) -> Never { Glibc._exit(status) }
}
