// Whole texts and objects.
extension FieldList {
    /// Reads a value from JSON text, which is to be within `depth` objects when it becomes a part of another text; nil when the text is
    /// malformed or does not conform.
    package init?(decoding text: ArraySlice<UInt8>, depth: Int = 0) {
        guard var fields = try? Fields(reading: text, depth: depth) else { return nil }
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
