import IPCProtocol
import JSONCoding
import LinuxSystem

/// The output of `imgbroker --formats`, which runs the decode workers because the broker links no codec.
struct FormatTable {
    private let codecs: [ImageCodec]

    init(_ codecs: [ImageCodec]) { self.codecs = codecs }

    /// The argument that requests the table, and the one that requests it as JSON.
    static let (option, json) = ("--formats", "--json")

    /// Prints the table if `arguments`, without the program's name, request it; returns false otherwise.
    ///
    /// - Throws: `SystemError` of `write`.
    func print(_ arguments: [String]) throws(SystemError) -> Bool {
        switch arguments {
        case [Self.option]: try CurrentProcess.writeToStandardOutput(text)
        case [Self.option, Self.json]: try CurrentProcess.writeToStandardOutput(String(decoding: object, as: UTF8.self) + "\n")
        default: return false
        }
        return true
    }

    /// The table as text.
    var text: String {
        let yes = { (value: Bool) in value ? "yes" : "no" }
        let rows =
            [["Format", "Media type", "Several images", "Also written", "Orientation", "Decoded by"]]
            + codecs.map { codec in
                [
                    codec.format.name, codec.format.contentType, yes(codec.hasFrames), yes(codec.isEncoded),
                    codec.orientation, codec.library,
                ]
            }
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        let lines = rows.map { row in
            row.indices.map { column in
                // The last column is not padded.
                let isLast = column == row.count - 1
                return row[column] + String(repeating: " ", count: isLast ? 0 : widths[column] - row[column].count + 2)
            }.joined()
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The table as JSON.
    var object: [UInt8] {
        var writer = JSONWriter()
        writer.object {
            $0.array("formats", of: codecs) { entry, codec in
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
