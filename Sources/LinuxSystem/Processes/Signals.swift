internal import CLinux
internal import Glibc

/// Signals as readable events (signalfd).
package final class Signals {
    package let descriptor: FileDescriptor

    /// Blocks `signals` in this process and reports them through the descriptor. Must run before any thread is started.
    package init(_ signals: [Int32]) throws(SystemError) {
        descriptor = FileDescriptor(owning: try retrying("signalfd") { unsafe clinux_signalfd(signals, signals.count) })
    }

    /// Whether this process ignores `signal`, as its parent may have ordered (nohup).
    package static func isIgnored(_ signal: Int32) -> Bool { clinux_is_ignored(signal) != 0 }

    package func next() -> Int32? {
        let signal = clinux_signalfd_next(descriptor.raw)
        return signal == 0 ? nil : signal
    }
}
