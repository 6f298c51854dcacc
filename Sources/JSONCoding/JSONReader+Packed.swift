// The packed form.
extension JSONReader {
    /// `index` for the packed form.
    mutating func indexPacked(_ members: inout [Member]) throws(MalformedJSON) {
        let bytes = bytes
        let packed = bytes.span
        var scanner = PackedScanner(at: position - bytes.startIndex, depth: depth)
        defer { position = bytes.startIndex + scanner.position }
        guard scanner.take(UInt8(ascii: "{"), in: packed) else { throw scanner.malformed("an object") }
        while !scanner.take(UInt8(ascii: "}"), in: packed) {
            if members.count == Self.maximumMembers {
                throw scanner.malformed("at most \(Self.maximumMembers) members")
            }
            let name = try scanner.readString(in: packed)
            members.append(
                Member(
                    key: FieldKey(packed.extracting(name)), isUnusual: false,
                    nameStart: bytes.startIndex + name.lowerBound, value: bytes.startIndex + scanner.position))
            try scanner.skipValue(in: packed)
        }
    }

    /// Reads a number without a tag.
    mutating func readPacked<Value: FixedWidthInteger & BitwiseCopyable>(
        _: Value.Type
    ) throws(MalformedJSON) -> Value {
        let bytes = bytes
        var scanner = PackedScanner(at: position - bytes.startIndex)
        defer { position = bytes.startIndex + scanner.position }
        return try scanner.readInteger(in: bytes.span)
    }
}
