internal import Foundation
internal import Glibc
internal import LinuxSystem

/// A control group of one test that limits memory; needs root, and a hierarchy that it may change. Its processes must
/// have exited when this object is released.
package final class ControlGroup {
    private let directory: String

    /// Whether this process may make such groups.
    package static let isPossible: Bool = (try? ControlGroup(memory: 1 << 26)) != nil

    /// Makes a group of version 1, or else of version 2, with a limit of memory in bytes and without swap.
    package init(memory bytes: Int) throws {
        let isOld = CurrentProcess.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")
        let parent = isOld ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup"
        if !isOld { _ = try? Self.write("+memory", to: parent + "/cgroup.subtree_control") }
        directory = parent + "/imgbroker-test-" + String(UInt32.random(in: .min ... .max), radix: 36)
        try FileSystem.makeDirectory(directory, mode: 0o755)
        try Self.write("\(bytes)", to: directory + (isOld ? "/memory.limit_in_bytes" : "/memory.max"))
        // Without swap accounting there is no such file.
        _ = try? Self.write(
            isOld ? "\(bytes)" : "0", to: directory + (isOld ? "/memory.memsw.limit_in_bytes" : "/memory.swap.max"))
    }

    deinit {
        // The kernel needs a moment after the exit of the last process.
        for _ in 0..<500 where unsafe rmdir(directory) != 0 && errno == EBUSY { usleep(10_000) }
    }

    /// Words of a shell that move it into the group.
    package var entering: String { "echo $$ >\(directory)/cgroup.procs; " }

    /// Words of a shell that move it into the group and start a program that no file tells of pressure, so that it
    /// learns of a shortage by kills alone.
    package var enteringUnaware: String {
        let hiding =
            "for f in /proc/pressure/memory \(directory)/memory.pressure; do "
            + "mount --bind $f $f && mount -o remount,bind,ro $f; done 2>/dev/null"
        return entering + "exec unshare --mount sh -c '\(hiding); exec \"$@\"' "
    }

    /// The number of processes that the kernel has killed for want of memory.
    package var kills: Int {
        for name in ["memory.oom_control", "memory.events"] {
            for line in text(ofFile: directory + "/" + name).split(separator: "\n") where line.hasPrefix("oom_kill ") {
                return Int(line.dropFirst("oom_kill ".count)) ?? 0
            }
        }
        return 0
    }

    package var usedBytes: Int {
        ["memory.usage_in_bytes", "memory.current"].compactMap { name in
            Int(text(ofFile: directory + "/" + name).prefix { $0 != "\n" })
        }.first ?? 0
    }

    private static func write(_ text: String, to path: String) throws {
        guard let file = unsafe fopen(path, "w") else { throw SystemError("open") }
        let isWritten = unsafe fputs(text, file) >= 0
        if unsafe fclose(file) != 0 || !isWritten { throw SystemError("write") }
    }
}
