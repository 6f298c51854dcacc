internal import CLinux
internal import Glibc
package import SystemValues

/// A process that this one started, known by a pidfd: no other process can ever be meant by it.
package final class ChildProcess {
    /// The process id, for messages.
    package let pid: Int32
    /// Readable when the process has ended.
    package let descriptor: FileDescriptor
    /// The most memory it ever had, that which it shared included, in bytes; 0 until it is collected.
    package private(set) var peakBytes = 0

    /// Starts `path` with `arguments` (without the program's name), a fresh environment, `control` as descriptor 3 and
    /// everything else but standard output and error closed.
    ///
    /// - Throws: `SystemError` of `posix_spawn` or `pidfd_open`.
    package init(
        path: String, arguments: [String], environment: [String] = [], control: FileDescriptor
    ) throws(SystemError) {
        var pid: pid_t = 0
        let error = unsafe Self.withCStrings([path] + arguments) { arguments in
            unsafe Self.withCStrings(environment) { environment in
                unsafe clinux_spawn(&pid, path, arguments, environment, control.raw)
            }
        }
        if error != 0 { throw SystemError("posix_spawn", code: error) }
        self.pid = pid
        // Not reaped yet, so the number cannot have passed to another process.
        descriptor = FileDescriptor(owning: try retrying("pidfd_open") { clinux_pidfd_open(pid) })
    }

    /// Takes on a child that another process has forked for this one.
    ///
    /// - Throws: `SystemError` of `pidfd_open`, or of `waitid` when `pid` is no child of this process.
    package init(adopting pid: Int32) throws(SystemError) {
        self.pid = pid
        descriptor = FileDescriptor(owning: try retrying("pidfd_open") { clinux_pidfd_open(pid) })
        try retrying("waitid") { clinux_pidfd_is_child(descriptor.raw) }
    }

    /// Ends and collects a child that nobody has taken on. Until then the number can be no other process's.
    package static func end(_ pid: Int32) {
        kill(pid, SIGKILL)
        var status: Int32 = 0
        while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
    }

    /// Sends `signal`, if the process still runs.
    package func send(_ signal: Int32) {
        _ = clinux_pidfd_send_signal(descriptor.raw, signal)
    }

    /// Collects the process when it has ended; nil while it runs. Afterwards nothing is left of it.
    package func reap() -> ProcessExit? {
        var (code, signaled, peak): (Int32, Int32, Int64) = (0, 0, 0)
        guard unsafe clinux_pidfd_reap(descriptor.raw, &code, &signaled, &peak) == 1 else { return nil }
        peakBytes = Int(peak)
        return signaled != 0 ? .signal(code) : .status(code)
    }

    /// The processor time that it has used so far, in milliseconds; nil when it is gone.
    package var processorMilliseconds: Int? {
        var nanoseconds: Int64 = 0
        guard unsafe clinux_processor_time(pid, &nanoseconds) == 0 else { return nil }
        return Int(nanoseconds / 1_000_000)
    }

    /// Whether the process is ending, or is about to be ended by SIGKILL, though `descriptor` may not tell yet: before it
    /// does the kernel takes back what the process had.
    package var isEnding: Bool { clinux_is_ending(pid) != 0 }

    /// The memory that is the process's own, mapped files and shared pages aside, in bytes; nil when it is gone.
    package var residentBytes: Int? {
        var buffer = [UInt8](repeating: 0, count: 256)
        guard let file = try? FileDescriptor.open(readingAt: "/proc/\(pid)/statm"),
            let count = unsafe try? buffer.withUnsafeMutableBytes({ unsafe try file.read(into: $0, at: 0) })
        else { return nil }
        // Pages in all, resident, of those shared (proc_pid_statm(5)).
        let fields = String(decoding: buffer.prefix(count), as: UTF8.self).split(separator: " ")
        guard fields.count > 2, let resident = Int(fields[1]), let shared = Int(fields[2]) else { return nil }
        return (resident - shared) * Int(sysconf(Int32(_SC_PAGESIZE)))
    }

    /// Waits up to so many milliseconds for the process to end, and collects it; nil when it still runs.
    package func waitForExit(milliseconds: Int) -> ProcessExit? {
        _ = clinux_wait_readable(descriptor.raw, Int32(clamping: milliseconds))
        return reap()
    }

    private static func withCStrings<Value>(
        _ strings: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Value
    ) -> Value {
        var pointers: [UnsafeMutablePointer<CChar>?] = unsafe strings.map { unsafe strdup($0) }
        defer { unsafe pointers.forEach { unsafe free($0) } }
        unsafe pointers.append(nil)
        return unsafe pointers.withUnsafeBufferPointer { unsafe body($0.baseAddress!) }
    }
}
