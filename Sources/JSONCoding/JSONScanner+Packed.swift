// The packed form: it is checked that all lengths are within the bytes, and that arrays and objects end. The rest is
// checked when it is read.
extension JSONScanner {
    @inline(__always)
    mutating func takeTag(_ tag: UInt8, in bytes: Span<UInt8>) -> Bool {
        guard position < bytes.count, bytes[position] == tag else { return false }
        position += 1
        return true
    }

    /// Reads a string as the range of its bytes.
    @inline(__always)
    mutating func readPackedString(in bytes: Span<UInt8>) throws(MalformedJSON) -> Range<Int> {
        guard takeTag(UInt8(ascii: "\""), in: bytes) else { throw malformed("a string") }
        let count = Int(try readPacked(UInt32.self, in: bytes))
        guard count <= bytes.count - position else { throw malformed("a string's bytes") }
        defer { position += count }
        return position..<position + count
    }

    /// Reads an integer or a pattern of bits without a tag.
    @inline(__always)
    mutating func readPacked<Value: FixedWidthInteger & BitwiseCopyable>(
        _: Value.Type, in bytes: Span<UInt8>
    ) throws(MalformedJSON) -> Value {
        guard MemoryLayout<Value>.size <= bytes.count - position else { throw malformed("a number") }
        defer { position += MemoryLayout<Value>.size }
        return unsafe Value(littleEndian: bytes.bytes.unsafeLoadUnaligned(fromByteOffset: position, as: Value.self))
    }

    /// Skips one value of any kind.
    mutating func skipPackedValue(in bytes: Span<UInt8>) throws(MalformedJSON) {
        let outer = depth
        // One bit for each level within the value, the innermost lowest: whether it is an object.
        var objects: UInt64 = 0
        repeat {
            guard position < bytes.count else { throw malformed("a value") }
            let tag = bytes[position]
            switch tag {
            case UInt8(ascii: "\""): _ = try readPackedString(in: bytes)
            case UInt8(ascii: "#"), UInt8(ascii: "~"):
                position += 1
                _ = try readPacked(UInt64.self, in: bytes)
            case UInt8(ascii: "t"), UInt8(ascii: "f"), UInt8(ascii: "n"): position += 1
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                try enter()
                objects = objects << 1 | (tag == UInt8(ascii: "{") ? 1 : 0)
                position += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                guard depth > outer, objects & 1 == (tag == UInt8(ascii: "}") ? 1 : 0) else {
                    throw malformed("a value")
                }
                objects >>= 1
                depth -= 1
                position += 1
            default: throw malformed("a value")
            }
        } while depth > outer
    }
}
