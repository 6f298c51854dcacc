internal import HTTPValues
package import JSONCoding

/// A local file that a request refers to. Its descriptor, which must be open for reading, comes with the message.
public struct LocalFile: Hashable, Sendable {
    /// The maximum length of a name in bytes.
    public static let longestName = 255

    /// A name for events; nil for none.
    public var name: String?

    /// Creates a reference to the file behind the descriptor of a message.
    public init(name: String? = nil) {
        self.name = name
    }
}

extension LocalFile: FieldList {
    package static var blank: LocalFile { LocalFile() }

    package mutating func list(_ fields: inout Fields) {
        fields.string("name", &name, most: Self.longestName)
        var descriptors = fields.isReading ? 0 : 1
        fields.integer("fds", &descriptors, in: 0...253)
        if fields.isReading, descriptors != 1 { fields.note("fds", expected: "1: the descriptor of the file") }
    }
}

extension Fields {
    /// The source of an image: a URL, or a file whose descriptor comes with the message. Reading `url` and `fds`
    /// together is an error.
    mutating func source(_ url: inout SourceURL, _ file: inout LocalFile?) {
        if isReading, has("fds"), !has("url") { file = .blank }
        if var source = file {
            source.list(&self)
            file = source
        } else {
            self.url("url", &url)
            var descriptors = 0
            integer("fds", &descriptors, in: 0...253, omitting: 0)
            if isReading, descriptors > 0 { note("fds", expected: "absent: the message has a url") }
        }
    }
}
