import LinuxSystem

/// Lists of sources: a URL or a path in each line.
enum SourceList {
    /// The most sources of one command.
    static let most = 1_000_000

    /// Reads the list at `path`, or that on standard input for "-". Empty lines are left out.
    static func read(_ path: String) throws(UsageError) -> [ImageSource] {
        let text: String
        do throws(SystemError) {
            text = try (path == "-" ? FileDescriptor.standardInput() : .open(readingAt: path)).readToEnd()
        } catch {
            throw UsageError("the list \"\(path)\" cannot be read: \(error)")
        }
        let lines = text.split { $0.isNewline }.filter { !$0.allSatisfy(\.isWhitespace) }
        guard lines.count <= most else { throw UsageError("the list \"\(path)\" has more than \(most) lines") }
        return try lines.map { (line) throws(UsageError) in
            if line == "-" { throw UsageError("the list \"\(path)\" has the line \"-\"") }
            return ImageSource(String(line))
        }
    }
}
