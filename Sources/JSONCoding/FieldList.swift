/// A value that is a JSON object on the wire. It names each of its fields once, in `list`, which both reads and writes.
///
///     mutating func list(_ fields: inout Fields) {
///         fields.string("key", &key)
///         fields.integer("bytes", &bytes, in: 0...Int.max)
///         fields.string("varyKey", &varyKey)
///     }
package protocol FieldList {
    /// The value that reading starts from. A field that is absent keeps its value.
    static var blank: Self { get }

    /// Names all fields, in the order of their writing.
    ///
    /// When `fields` is reading, each call assigns a field; when it is writing, each call writes one, and `self` stays
    /// as it is. Properties that follow from several fields are computed at the end, if `fields.isReading`.
    mutating func list(_ fields: inout Fields)
}

extension FieldList {
    /// Reads a value from JSON text; nil when the text is malformed or does not conform.
    package init?(decoding text: ArraySlice<UInt8>) {
        guard var fields = try? Fields(reading: text) else { return nil }
        self = Self.blank
        list(&fields)
        if fields.problem != nil { return nil }
    }

    /// Writes all fields as members of the object that `writer` is in.
    package func writeMembers(to writer: inout JSONWriter) {
        Fields.writeMembers(&writer) { fields in
            var copy = self
            copy.list(&fields)
        }
    }

    /// The value as JSON text.
    package var encoded: [UInt8] {
        var writer = JSONWriter()
        writer.object(writeMembers)
        return writer.bytes
    }
}
