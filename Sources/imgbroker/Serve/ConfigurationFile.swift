import CInih
import LinuxSystem

/// A configuration file: lines `key = value`, and comments after "#" or ";" at the beginning of a line.
enum ConfigurationFile {
    /// The file that is read unless another one is named.
    static let usualPath = "/etc/imgbroker/imgbroker.conf"
    /// The longest line in bytes: that of the reader (`INI_MAX_LINE`, with a line break and a zero).
    static let longestLine = 198

    /// A line with a key.
    struct Line: Equatable {
        let number: Int
        let key: String
        let value: String
    }

    /// Reads the file at `path`.
    ///
    /// - Throws: `UsageError` when it cannot be read, or a line is not understood.
    static func read(_ path: String) throws(UsageError) -> [Line] {
        do {
            return try lines(of: try FileDescriptor.open(readingAt: path).readToEnd(), path)
        } catch let error as UsageError {
            throw error
        } catch {
            throw UsageError(description: "the configuration cannot be read: \(path): \(error)")
        }
    }

    /// Reads a file's text.
    ///
    /// - Throws: `UsageError` with the path and the line that is not understood.
    static func lines(of text: String, _ path: String) throws(UsageError) -> [Line] {
        // The reader does not tell the numbers of lines, so it is given one after the other. That also leaves no meaning to
        // indentation.
        var lines: [Line] = []
        // By bytes: a line break of Windows is one character.
        for (index, bytes) in text.utf8.split(separator: 10, omittingEmptySubsequences: false).enumerated() {
            let line = Substring(bytes)
            func fail(_ reason: String) -> UsageError { UsageError(description: "\(path):\(index + 1): \(reason)") }
            if line.utf8.count > longestLine { throw fail("the line is longer than \(longestLine) bytes") }
            if line.utf8.contains(0) { throw fail("the line contains a NUL byte") }
            let (isUnderstood, pairs) = pairs(in: String(line))
            guard isUnderstood else { throw fail("a line must be \"key = value\", or a comment after #") }
            for (section, key, value) in pairs {
                if !section.isEmpty { throw fail("there are no sections") }
                lines.append(Line(number: index + 1, key: key, value: value))
            }
            if line.drop(while: { $0 == " " || $0 == "\t" }).first == "[" { throw fail("there are no sections") }
        }
        return lines
    }

    private typealias Pair = (section: String, key: String, value: String)

    private static func pairs(in line: String) -> (isUnderstood: Bool, pairs: [Pair]) {
        var pairs: [Pair] = []
        let status = unsafe withUnsafeMutablePointer(to: &pairs) { pairs in
            unsafe ini_parse_string(
                line,
                { user, section, name, value in
                    guard let pairs = unsafe user?.assumingMemoryBound(to: [Pair].self), let name = unsafe name else {
                        return 0
                    }
                    unsafe pairs.pointee.append(
                        (
                            section.map { unsafe String(cString: $0) } ?? "", String(cString: name),
                            value.map { unsafe String(cString: $0) } ?? ""
                        ))
                    return 1
                }, pairs)
        }
        return (status == 0, pairs)
    }
}
