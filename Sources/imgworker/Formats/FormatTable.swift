import IPCProtocol
import JSONCoding
import LinuxSystem

/// What `imgbroker --formats` prints: the broker links no codec, and asks this program.
enum FormatTable {
    /// The word for it, and the one for JSON.
    static let (word, json) = ("--formats", "--json")

    /// Prints what `arguments`, without the program's name, ask for; false when they are about something else.
    static func print(_ arguments: [String]) -> Bool {
        switch arguments {
        case [word]: CurrentProcess.writeToStandardOutput(text)
        case [word, json]: CurrentProcess.writeToStandardOutput(String(decoding: object, as: UTF8.self) + "\n")
        default: return false
        }
        return true
    }

    /// A table for people.
    static var text: String {
        let yes = { (value: Bool) in value ? "yes" : "no" }
        let rows =
            [["Format", "Media type", "Several pictures", "Also written", "Orientation", "Decoded by"]]
            + ImageCodec.all.map { codec in
                [
                    codec.format.name, codec.format.contentType, yes(codec.hasFrames), yes(codec.isEncoded),
                    codec.orientation, codec.library,
                ]
            }
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        let lines = rows.map { row in
            row.indices.map { column in
                // Nothing stands behind the last column.
                let isLast = column == row.count - 1
                return row[column] + String(repeating: " ", count: isLast ? 0 : widths[column] - row[column].count + 2)
            }.joined()
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The same for programs.
    static var object: [UInt8] {
        var writer = JSONWriter()
        writer.object {
            $0.array("formats", of: ImageCodec.all) { entry, codec in
                entry.member("format", codec.format.rawValue)
                entry.member("contentType", codec.format.contentType)
                entry.member("frames", codec.hasFrames)
                entry.member("encoded", codec.isEncoded)
                entry.member("orientation", codec.orientation)
                entry.member("library", codec.library)
            }
        }
        return writer.bytes
    }
}
