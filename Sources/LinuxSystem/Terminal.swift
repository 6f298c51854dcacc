internal import CLinux
internal import Glibc
import SystemValues

/// The terminal that controls this process (`/dev/tty`).
package struct Terminal {
    package struct Size: Equatable, Sendable {
        /// In characters.
        package var columns: Int
        package var rows: Int
        /// In pixels; 0 for a terminal that does not report it.
        package var width: Int
        package var height: Int

        package init(columns: Int, rows: Int, width: Int = 0, height: Int = 0) {
            (self.columns, self.rows, self.width, self.height) = (columns, rows, width, height)
        }
    }

    private let descriptor: FileDescriptor

    /// Opens the terminal. Throws `SystemError` of `open`, for example for a process of a service.
    package init() throws(SystemError) { descriptor = try .open(updatingAt: "/dev/tty") }

    /// The size of the window; that of a VT100 for a terminal that reports none.
    package var size: Size? { Self.size(of: descriptor.raw) }

    /// The size of the terminal behind standard output; nil when it is not a terminal.
    package static var ofStandardOutput: Size? { size(of: 1) }

    /// The size of the terminal behind standard error; nil when it is not a terminal.
    package static var ofStandardError: Size? { size(of: 2) }

    package static var isStandardInput: Bool { isatty(0) == 1 }

    static func size(of raw: Int32) -> Size? {
        var size = winsize()
        guard unsafe ioctl(raw, UInt(TIOCGWINSZ), &size) == 0 else { return nil }
        // A serial line, and the terminal of a container, may have no size.
        guard size.ws_col > 0, size.ws_row > 0 else { return Size(columns: 80, rows: 24) }
        return Size(
            columns: Int(size.ws_col), rows: Int(size.ws_row), width: Int(size.ws_xpixel), height: Int(size.ws_ypixel))
    }

    /// Writes a query to the terminal, and returns what it answers until `isComplete` or for `milliseconds`. Meanwhile,
    /// the answer is not shown.
    package func answer(to query: String, within milliseconds: Int, isComplete: ([UInt8]) -> Bool) -> [UInt8] {
        var before = termios()
        guard unsafe tcgetattr(descriptor.raw, &before) == 0 else { return [] }
        var quiet = before
        quiet.c_lflag &= ~tcflag_t(ICANON | ECHO)
        // A signal that ends or stops the process waits until the terminal is as before.
        var (signals, unblocked) = (sigset_t(), sigset_t())
        unsafe sigemptyset(&signals)
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP] { unsafe sigaddset(&signals, signal) }
        unsafe pthread_sigmask(SIG_BLOCK, &signals, &unblocked)
        defer { unsafe pthread_sigmask(SIG_SETMASK, &unblocked, nil) }
        guard unsafe tcsetattr(descriptor.raw, TCSANOW, &quiet) == 0 else { return [] }
        defer { _ = unsafe tcsetattr(descriptor.raw, TCSANOW, &before) }
        let query = Array(query.utf8)
        guard unsafe query.withUnsafeBytes({ (try? unsafe descriptor.write($0)) != nil }) else { return [] }
        let end = Instant.now.adding(milliseconds: milliseconds)
        var answer: [UInt8] = []
        while !isComplete(answer), answer.count < 1024 {
            let left = end.microseconds(since: .now) / 1000
            guard left > 0, descriptor.wait(milliseconds: Int32(left)) else { break }
            var byte: UInt8 = 0
            guard unsafe read(descriptor.raw, &byte, 1) == 1 else { break }
            answer.append(byte)
        }
        return answer
    }
}
