internal import Glibc

/// The alternate screen of the terminal that controls this process, without its echo, and with keys as they are
/// pressed. The terminal is as before when the object is released, and while the process is stopped.
package final class TerminalScreen {
    package enum Event: Equatable {
        /// Bytes that the terminal sent, of one or several keys.
        case keys([UInt8])
        /// The screen must be drawn anew: its size has changed, or the process was stopped.
        case changed
        /// A signal has asked the process to exit, or the terminal is gone.
        case ended
    }

    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH]
    /// The alternate screen, without a cursor and without line breaks at the right edge.
    private static let begin = "\u{1B}[?1049h\u{1B}[?25l\u{1B}[?7l"
    private static let end = "\u{1B}[?7h\u{1B}[?25h\u{1B}[?1049l"

    private let descriptor: FileDescriptor
    private let signals: Signals
    private let events: EventQueue
    private let before: termios

    /// Takes the screen. From then on, signals that end or stop the process are events. Throws `SystemError` of `open`
    /// or `tcgetattr` for a process without a terminal.
    package init() throws(SystemError) {
        let descriptor = try FileDescriptor.open(updatingAt: "/dev/tty")
        var before = termios()
        try retrying("tcgetattr") { unsafe tcgetattr(descriptor.raw, &before) }
        signals = try Signals(Self.signals)
        events = try EventQueue()
        try events.add(descriptor.raw, token: 0)
        try events.add(signals.descriptor.raw, token: 1)
        self.descriptor = descriptor
        self.before = before
        enter()
    }

    deinit { leave() }

    package var size: Terminal.Size? { Terminal.size(of: descriptor.raw) }

    package func wait(milliseconds: Int) throws(SystemError) -> [Event] {
        var found: [Event] = []
        for event in try events.wait(milliseconds: milliseconds) {
            if event.token == 0 { found.append(readKeys()) } else { takeSignals(&found) }
        }
        return found
    }

    /// Shows lines, which may have escape sequences, from the upper left corner on. They fill the screen,
    /// so that nothing is cleared and nothing flickers.
    package func show(_ lines: [String]) { write("\u{1B}[H" + lines.joined(separator: "\r\n")) }

    private func readKeys() -> Event {
        let bytes = unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 64) { buffer -> [UInt8]? in
            let count = unsafe read(descriptor.raw, buffer.baseAddress!, buffer.count)
            if count > 0 { return unsafe Array(buffer.prefix(count)) }
            return count < 0 && [EAGAIN, EINTR].contains(lastErrorNumber()) ? [] : nil
        }
        return bytes.map { .keys($0) } ?? .ended
    }

    private func takeSignals(_ found: inout [Event]) {
        while let signal = signals.next() {
            switch signal {
            case SIGTSTP:
                leave()
                // Not to be blocked: the process stops here until SIGCONT.
                _ = kill(getpid(), SIGSTOP)
                enter()
                found.append(.changed)
            case SIGCONT:
                // The shell may have changed the terminal.
                enter()
                found.append(.changed)
            case SIGWINCH:
                // A larger window may have rests of the smaller one.
                write("\u{1B}[2J")
                found.append(.changed)
            default: found.append(.ended)
            }
        }
    }

    private func enter() {
        var raw = before
        raw.c_lflag &= ~tcflag_t(ICANON | ECHO)
        _ = unsafe tcsetattr(descriptor.raw, TCSADRAIN, &raw)
        write(Self.begin)
    }

    private func leave() {
        write(Self.end)
        var before = before
        _ = unsafe tcsetattr(descriptor.raw, TCSADRAIN, &before)
    }

    /// Writes to a terminal that may be held (Ctrl-S): what it does not take until a signal arrives, or for a second,
    /// is lost.
    private func write(_ text: String) {
        let bytes = Array(text.utf8)
        var written = 0
        while written < bytes.count {
            let count = unsafe bytes.withUnsafeBytes {
                unsafe Glibc.write(descriptor.raw, $0.baseAddress! + written, $0.count - written)
            }
            if count > 0 {
                written += count
                continue
            }
            guard count < 0, [EAGAIN, EINTR].contains(lastErrorNumber()) else { return }
            var entries = [
                pollfd(fd: descriptor.raw, events: Int16(POLLOUT), revents: 0),
                pollfd(fd: signals.descriptor.raw, events: Int16(POLLIN), revents: 0),
            ]
            guard unsafe poll(&entries, 2, 1000) > 0, entries[1].revents == 0 else { return }
        }
    }
}
