/// Writes one JSON object into bytes, member by member.
package struct JSONWriter {
    /// The bytes written so far.
    package private(set) var bytes: [UInt8]
    private let form: JSONForm
    private var needsComma = false

    /// Starts after `prefix`, which stays unchanged. Only the memory of `storage` is used.
    package init(prefix: [UInt8] = [], capacity: Int = 512, reusing storage: consuming [UInt8] = []) {
        bytes = consume storage
        bytes.removeAll(keepingCapacity: true)
        bytes.reserveCapacity(capacity)
        bytes.append(contentsOf: prefix)
        form = .text
    }

    /// Starts after `bytes`.
    package init(after bytes: consuming [UInt8], form: JSONForm) {
        self.bytes = consume bytes
        self.form = form
    }

    /// Ends the writing, and returns all bytes.
    package consuming func finish() -> [UInt8] { bytes }

    /// Writes an object, as a value or as the whole text, with what `members` writes.
    package mutating func object(_ members: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "{"))
        members(&self)
        close(UInt8(ascii: "}"))
    }

    /// Writes member `name` with an object.
    package mutating func object(_ name: String, _ members: (inout JSONWriter) -> Void) {
        self.name(name)
        object(members)
    }

    /// Writes member `name` with an array of objects.
    package mutating func array<Element>(
        _ name: String, of elements: some Sequence<Element>, _ members: (inout JSONWriter, Element) -> Void
    ) {
        self.name(name)
        open(UInt8(ascii: "["))
        for element in elements { object { members(&$0, element) } }
        close(UInt8(ascii: "]"))
    }

    /// Writes member `name` with an array whose elements `elements` writes.
    mutating func array(_ name: StaticString, _ elements: (inout JSONWriter) -> Void) {
        self.name(name)
        open(UInt8(ascii: "["))
        elements(&self)
        close(UInt8(ascii: "]"))
    }

    /// Writes member `name` with an array of values.
    package mutating func array(_ name: String, of values: some Sequence<some JSONScalar>) {
        self.name(name)
        open(UInt8(ascii: "["))
        for value in values { value.write(to: &self) }
        close(UInt8(ascii: "]"))
    }

    /// Writes member `name` with a value, a fractional number to three places; nothing when it is nil.
    package mutating func member(_ name: String, _ value: (some JSONScalar)?) {
        guard let value else { return }
        self.name(name)
        value.write(to: &self)
    }

    mutating func value(_ string: String) {
        separate()
        quote(string)
    }

    mutating func value(_ integer: Int) {
        separate()
        if form == .packed {
            bytes.append(UInt8(ascii: "#"))
            append(packed: integer)
        } else {
            append(decimal: integer)
        }
    }

    /// Writes a number, as text to three places; 0 for one that is not finite.
    mutating func value(_ number: Double) {
        if form == .packed { return exactValue(number.isFinite ? number : 0) }
        separate()
        let rounded = (number * 1000).rounded() / 1000
        bytes.append(contentsOf: (rounded.isFinite ? rounded.description : "0").utf8)
    }

    /// Writes all digits of a number; null for one that is not finite.
    mutating func exactValue(_ number: Double) {
        // JSON has no other numbers; null is refused where a number is expected.
        if !number.isFinite { return null() }
        separate()
        if form == .packed {
            bytes.append(UInt8(ascii: "~"))
            return append(packed: number.bitPattern)
        }
        bytes.append(contentsOf: (Int(exactly: number).map(String.init) ?? number.description).utf8)
    }

    mutating func value(_ boolean: Bool) {
        separate()
        switch (boolean, form) {
        case (true, .packed): append("t")
        case (false, .packed): append("f")
        case (true, .text): append("true")
        case (false, .text): append("false")
        }
    }

    mutating func null() {
        separate()
        if form == .packed { append("n") } else { append("null") }
    }

    /// Overwrites the four bytes at `offset`, written before, with a big-endian integer.
    package mutating func overwrite(at offset: Int, with value: UInt32) {
        for index in 0..<4 { bytes[offset + index] = UInt8(truncatingIfNeeded: value >> (24 - 8 * index)) }
    }

    mutating func open(_ bracket: UInt8) {
        separate()
        bytes.append(bracket)
        needsComma = false
    }

    mutating func close(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    /// Begins an element of an array or a name, or the value after a name.
    private mutating func separate() {
        if needsComma, form == .text { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    mutating func name(_ name: String) {
        separate()
        quote(name)
        if form == .text { bytes.append(UInt8(ascii: ":")) }
        needsComma = false
    }

    /// Begins member `name`, which needs no escapes.
    mutating func name(_ name: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        if form == .packed {
            append(packed: UInt32(name.utf8CodeUnitCount))
            return append(name)
        }
        append(name)
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    private mutating func append(_ text: StaticString) {
        unsafe bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    package mutating func append(_ text: [UInt8]) { bytes.append(contentsOf: text) }

    package mutating func append(zeros count: Int) { for _ in 0..<count { bytes.append(0) } }

    package mutating func append(_ span: RawSpan) {
        unsafe span.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
    }

    /// Appends a number without a tag, its lowest byte first.
    private mutating func append<Value: FixedWidthInteger & BitwiseCopyable>(packed value: Value) {
        unsafe withUnsafeBytes(of: value.littleEndian) { unsafe bytes.append(contentsOf: $0) }
    }

    /// Appends an integer's digits.
    package mutating func append(decimal value: Int) {
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        var first = bytes.count
        var rest = value.magnitude
        repeat {
            bytes.append(UInt8(ascii: "0") + UInt8(rest % 10))
            rest /= 10
        } while rest > 0
        // The digits are in reverse order. Swapped in place, because `reverse` of a slice would copy.
        var last = bytes.count - 1
        while first < last {
            bytes.swapAt(first, last)
            first += 1
            last -= 1
        }
    }

    private mutating func quote(_ string: String) {
        var string = string
        bytes.append(UInt8(ascii: "\""))
        if form == .packed {
            append(packed: UInt32(string.utf8.count))
            return string.withUTF8 { unsafe bytes.append(contentsOf: $0) }
        }
        string.withUTF8 { text in
            let isPlain = unsafe text.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
            if isPlain { unsafe bytes.append(contentsOf: text) } else { unsafe text.forEach { escape($0) } }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            bytes.append(UInt8(ascii: "\\"))
            bytes.append(byte)
        case 0x0A: bytes.append(contentsOf: "\\n".utf8)
        case 0..<0x20:
            let digits = Array("0123456789abcdef".utf8)
            bytes.append(contentsOf: "\\u00".utf8)
            bytes.append(digits[Int(byte >> 4)])
            bytes.append(digits[Int(byte & 15)])
        default: bytes.append(byte)
        }
    }
}

/// A value without members and elements.
package protocol JSONScalar {
    func write(to writer: inout JSONWriter)
}

extension String: JSONScalar { package func write(to writer: inout JSONWriter) { writer.value(self) } }
extension Int: JSONScalar { package func write(to writer: inout JSONWriter) { writer.value(self) } }
extension Double: JSONScalar { package func write(to writer: inout JSONWriter) { writer.value(self) } }
extension Bool: JSONScalar { package func write(to writer: inout JSONWriter) { writer.value(self) } }
