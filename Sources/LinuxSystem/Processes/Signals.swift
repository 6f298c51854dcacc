internal import CLinux
internal import Glibc

/// Signals as readable events (signalfd).
package final class Signals {
    package let descriptor: FileDescriptor

    /// Blocks `signals` in this process and reports them through the descriptor. Must run before any thread is started.
    package init(_ signals: [Int32]) throws(SystemError) {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for signal in signals { unsafe sigaddset(&set, signal) }
        try retrying("sigprocmask") { unsafe sigprocmask(SIG_BLOCK, &set, nil) }
        let raw = try retrying("signalfd") { unsafe signalfd(-1, &set, Int32(SFD_CLOEXEC | SFD_NONBLOCK)) }
        descriptor = FileDescriptor(owning: raw)
    }

    /// Whether this process ignores `signal`, as its parent may have ordered (nohup).
    package static func isIgnored(_ signal: Int32) -> Bool { clinux_is_ignored(signal) != 0 }

    package func next() -> Int32? {
        var information = signalfd_siginfo()
        let size = MemoryLayout<signalfd_siginfo>.size
        return unsafe read(descriptor.raw, &information, size) == size ? Int32(information.ssi_signo) : nil
    }
}
