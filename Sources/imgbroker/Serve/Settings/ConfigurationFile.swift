import CInih
import LinuxSystem

/// A configuration file: lines `key = value`, sections `[preset NAME]` after them, and comments after "#" or ";" at the
/// beginning of a line. It checks the syntax alone; `GivenSettings` checks the keys, and `BrokerSetting` the values.
enum ConfigurationFile {
    static let pathOfSystem = "/etc/imgbroker/imgbroker.conf"
    /// The user's file below the directory of the user's configuration.
    static let nameOfUsers = "imgbroker/imgbroker.conf"

    /// The file that is read unless another one is named: in a user's session the user's own, else the system's, whose
    /// paths and limits are those of a service. A service has no session, and its workers may write to its home.
    static func usualPath(uid: UInt32, environment: (String) -> String?) -> String {
        func directory(_ name: String) -> String? { environment(name).flatMap { $0.hasPrefix("/") ? $0 : nil } }
        guard uid != 0, directory("XDG_RUNTIME_DIR") != nil,
            let base = directory("XDG_CONFIG_HOME") ?? directory("HOME").map({ $0 + "/.config" })
        else { return pathOfSystem }
        return "\(base)/\(nameOfUsers)"
    }

    /// The longest line in bytes: that of the reader (`INI_MAX_LINE`, with a line break and a zero).
    static let longestLine = 198

    struct Line: Equatable {
        let number: Int
        let key: String
        let value: String
        /// The preset that it belongs to; nil for a setting.
        var preset: String?
    }

    struct Contents {
        var lines: [Line] = []
        /// The presets by name, with the number of their section's line.
        var presets: [String: Int] = [:]
    }

    static func read(_ path: String) throws(UsageError) -> Contents {
        let file: SettingsFile?
        do throws(SystemError) { file = try SettingsFile(path) } catch {
            throw UsageError("the configuration cannot be read: \(path): \(error)")
        }
        guard let file else { throw UsageError("the configuration \(path) is no regular file of 1 MiB at most") }
        return try contents(of: file.text, path)
    }

    static func contents(of text: String, _ path: String) throws(UsageError) -> Contents {
        // The reader does not tell the numbers of lines, so it gets each alone; so indentation has no meaning.
        var contents = Contents()
        var preset: String?
        // By bytes: a line break of Windows is one character.
        for (index, bytes) in text.utf8.split(separator: 10, omittingEmptySubsequences: false).enumerated() {
            let line = Substring(bytes)
            func fail(_ reason: String) -> UsageError { UsageError("\(path):\(index + 1): \(reason)") }
            if line.utf8.count > longestLine { throw fail("the line is longer than \(longestLine) bytes") }
            if line.utf8.contains(0) { throw fail("the line contains a NUL byte") }
            let words = line.drop { $0 == " " || $0 == "\t" }
            if words.first == "[" {
                let name = try section(words, "\(path):\(index + 1)")
                if let earlier = contents.presets[name] { throw fail("preset \(name) begins in line \(earlier)") }
                if contents.presets.count == mostPresets { throw fail("there are more than \(mostPresets) presets") }
                contents.presets[name] = index + 1
                preset = name
                continue
            }
            let (isUnderstood, pairs) = pairs(in: String(line))
            guard isUnderstood else { throw fail("a line must be \"key = value\", or a comment after #") }
            for (key, value) in pairs {
                contents.lines.append(Line(number: index + 1, key: key, value: value, preset: preset))
            }
        }
        return contents
    }

    static let mostPresets = 256

    /// The preset's name in a line "[preset NAME]", which a comment after ";" may follow.
    private static func section(_ line: Substring, _ place: String) throws(UsageError) -> String {
        let parts = line.split(separator: "]", maxSplits: 1, omittingEmptySubsequences: false)
        let words = parts[0].dropFirst().split { $0 == " " || $0 == "\t" }
        let rest = parts.count == 2 ? parts[1].drop { " \t\r".contains($0) } : "?"
        guard words.count == 2, words[0] == "preset", rest.isEmpty || rest.first == ";" else {
            throw UsageError("\(place): a section must be [preset NAME]")
        }
        return try GivenValue(name: "\(place): preset", text: String(words[1])).presetName()
    }

    private typealias Pair = (key: String, value: String)

    private static func pairs(in line: String) -> (isUnderstood: Bool, pairs: [Pair]) {
        var pairs: [Pair] = []
        let status = unsafe withUnsafeMutablePointer(to: &pairs) { pairs in
            unsafe ini_parse_string(
                line,
                { user, _, name, value in
                    guard let pairs = unsafe user?.assumingMemoryBound(to: [Pair].self), let name = unsafe name else {
                        return 0
                    }
                    unsafe pairs.pointee.append((String(cString: name), value.map { unsafe String(cString: $0) } ?? ""))
                    return 1
                }, pairs)
        }
        return (status == 0, pairs)
    }
}

/// The configuration file, or one that a setting names.
struct SettingsFile {
    private static let longest = 1 << 20

    let text: String
    let isReadableByAll: Bool

    /// Reads the file at `path`; nil if it is neither a regular file of 1 MiB at most nor `/dev/null`. A pipe would
    /// hold up the broker.
    init?(_ path: String) throws(SystemError) {
        let file = try FileDescriptor.open(readingWithoutWaitingAt: path)
        let status = try file.status()
        guard status.isRegular && status.size <= Self.longest || path == "/dev/null" else { return nil }
        text = try file.readToEnd()
        isReadableByAll = status.isReadableByAll
    }
}
