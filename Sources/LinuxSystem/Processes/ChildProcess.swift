internal import CLinux
internal import Glibc
internal import Synchronization
package import SystemValues

/// A child process, identified by a pidfd, which never refers to another process.
package final class ChildProcess {
    /// The process id, for messages.
    package let pid: Int32
    /// The pidfd, which is readable when the process has exited.
    package let descriptor: FileDescriptor
    /// The process's peak memory in bytes, including shared memory; 0 until it is reaped.
    package private(set) var peakBytes = 0
    private var exit: ProcessExit?

    /// Starts `path` with `arguments` (without the program's name), a new environment, `control` as descriptor 3, and
    /// `more`, if given, as descriptor 4. Everything else is closed except standard output and error. With `program`,
    /// the file behind that descriptor (`FileDescriptor.open(programAt:)`) is started, unless it is a script, and
    /// `path` is only its name.
    package init(
        _ program: FileDescriptor? = nil, path: String, arguments: [String], environment: [String] = [],
        control: FileDescriptor, more: FileDescriptor? = nil
    ) throws(SystemError) {
        var pid: pid_t = 0
        let error = unsafe withCStrings([path] + arguments) { arguments in
            unsafe withCStrings(environment) { environment in
                unsafe clinux_spawn(
                    &pid, program?.raw ?? -1, path, arguments, environment, control.raw, more?.raw ?? -1)
            }
        }
        if error != 0 { throw SystemError("execve", code: error) }
        self.pid = pid
        // The process is not reaped yet, so its number cannot belong to another.
        do throws(SystemError) {
            descriptor = FileDescriptor(owning: try retrying("pidfd_open") { clinux_pidfd_open(pid) })
        } catch {
            Self.end(pid)
            throw error
        }
        Self.note(pid)
    }

    deinit { Self.forget(pid) }

    /// Adopts a child that another process has forked for this one. Throws `SystemError` of `pidfd_open`, or of
    /// `waitid` when `pid` is not a child of this process.
    package init(adopting pid: Int32) throws(SystemError) {
        self.pid = pid
        descriptor = FileDescriptor(owning: try retrying("pidfd_open") { clinux_pidfd_open(pid) })
        try retrying("waitid") { clinux_pidfd_is_child(descriptor.raw) }
        Self.note(pid)
    }

    /// Kills and reaps a child that was not adopted. Its number stays its own until then.
    package static func end(_ pid: Int32) {
        kill(pid, SIGKILL)
        var status: Int32 = 0
        while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
    }

    /// Sends `signal` if the process still runs.
    package func send(_ signal: Int32) { _ = clinux_pidfd_send_signal(descriptor.raw, signal) }

    /// Reaps the process if it has exited, and returns its exit also later; nil while it runs.
    package func reap() -> ProcessExit? {
        if let exit { return exit }
        var (code, signaled, peak): (Int32, Int32, Int64) = (0, 0, 0)
        guard unsafe clinux_pidfd_reap(descriptor.raw, &code, &signaled, &peak) == 1 else { return nil }
        peakBytes = Int(peak)
        Self.forget(pid)
        exit = signaled != 0 ? .signal(code) : .status(code)
        return exit
    }

    /// The processor time that the process has used so far, in milliseconds; nil after its end.
    package var processorMilliseconds: Int? {
        var (clock, used) = (clockid_t(), timespec())
        guard unsafe clock_getcpuclockid(pid, &clock) == 0, unsafe clock_gettime(clock, &used) == 0 else { return nil }
        return Int(used.tv_sec) * 1000 + Int(used.tv_nsec) / 1_000_000
    }

    /// Whether the process is exiting or has a pending SIGKILL. `descriptor` reports the exit later, after the kernel
    /// has freed the process's memory.
    package var isEnding: Bool {
        guard let text = try? FileDescriptor.open(readingAt: "/proc/\(pid)/stat").read(1024, at: 0),
            let end = text.lastIndex(of: UInt8(ascii: ")"))
        else { return false }
        // From the end of the name, which is field 2, on: the kernel's flags are field 9, pending signals field 31
        // (proc_pid_stat(5)).
        let fields = Self.fields(text[end...])
        guard fields.count > 29, let flags = UInt(fields[7]), let pending = UInt(fields[29]) else { return false }
        let exiting: UInt = 0x4
        return flags & exiting != 0 || pending >> UInt(SIGKILL - 1) & 1 != 0
    }

    /// The process's own memory in bytes, without mapped files and shared pages; nil after its end.
    package var residentBytes: Int? {
        guard let text = try? FileDescriptor.open(readingAt: "/proc/\(pid)/statm").read(256, at: 0) else { return nil }
        // Total pages, resident pages, shared pages (proc_pid_statm(5)).
        let fields = Self.fields(text[...])
        guard fields.count > 2, let resident = Int(fields[1]), let shared = Int(fields[2]) else { return nil }
        return (resident - shared) * Int(sysconf(Int32(_SC_PAGESIZE)))
    }

    private static func fields(_ text: ArraySlice<UInt8>) -> [String] {
        text.split(separator: UInt8(ascii: " ")).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Waits up to `milliseconds` for the process to exit, and reaps it; nil when it still runs.
    package func waitForExit(milliseconds: Int) -> ProcessExit? {
        _ = descriptor.wait(milliseconds: Int32(clamping: milliseconds))
        return reap()
    }

    // MARK: Foreign children

    /// The children that objects of this class wait for; empty unless this is process 1, which alone has others.
    private static let own = Mutex<Set<pid_t>>([])
    private static let adoptsOrphans = getpid() == 1

    private static func note(_ pid: pid_t) { if adoptsOrphans { own.withLock { _ = $0.insert(pid) } } }
    private static func forget(_ pid: pid_t) { if adoptsOrphans { own.withLock { _ = $0.remove(pid) } } }

    /// Reaps exited children that this process has not started: the orphans of a container in which it is process 1.
    /// Returns false while an own child is to be reaped first.
    package static func reapStrangers() -> Bool {
        let own = own.withLock { Array($0) }
        while true {
            let result = unsafe clinux_reap_stranger(own, own.count)
            if result <= 0 { return result == 0 }
        }
    }
}

/// Calls `body` with a list of strings that ends with a null pointer.
func withCStrings<Value>(_ strings: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Value) -> Value {
    var pointers: [UnsafeMutablePointer<CChar>?] = unsafe strings.map { unsafe strdup($0) }
    defer { unsafe pointers.forEach { unsafe free($0) } }
    unsafe pointers.append(nil)
    return unsafe pointers.withUnsafeBufferPointer { unsafe body($0.baseAddress!) }
}
