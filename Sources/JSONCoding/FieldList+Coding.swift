// Whole texts and objects.
extension FieldList {
    /// Reads a value from JSON text; nil when it is malformed or does not conform.
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
