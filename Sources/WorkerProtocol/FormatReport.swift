package import IPCProtocol
package import JSONCoding

/// A format that a decode worker's program decodes, as `imgbroker --formats` shows it.
package struct FormatRow: Equatable, Sendable, FieldList {
    package var format: ImageFormat
    /// Whether a file may contain several images.
    package var hasFrames: Bool
    /// Whether results can be encoded in this format.
    package var isEncoded: Bool
    /// The metadata that contains a file's orientation.
    package var orientation: String
    /// The library's name and version.
    package var library: String

    package init(
        _ format: ImageFormat, hasFrames: Bool = false, isEncoded: Bool = false, orientation: String = "",
        library: String = ""
    ) {
        (self.format, self.hasFrames, self.isEncoded) = (format, hasFrames, isEncoded)
        (self.orientation, self.library) = (orientation, library)
    }

    package static var blank: FormatRow { FormatRow(.png) }

    package mutating func list(_ fields: inout Fields) {
        fields.choice("format", &format)
        fields.boolean("frames", &hasFrames)
        fields.boolean("encoded", &isEncoded)
        fields.string("orientation", &orientation)
        fields.string("library", &library)
    }
}

/// The only message of a decode worker's program that was started with `option`: it does nothing else.
package struct FormatReport: WorkerMessage {
    /// The argument that requests it.
    package static let option = "--report-formats"

    package var rows: [FormatRow]

    package init(_ rows: [FormatRow]) { self.rows = rows }

    package var type: String { "formats" }
    package static let blanks = [FormatReport([])]

    package mutating func list(_ fields: inout Fields) {
        fields.objects("formats", &rows)
    }
}
