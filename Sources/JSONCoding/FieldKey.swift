/// The length of a member's name, and its first, middle and last byte. They tell most names apart with one comparison.
struct FieldKey: Equatable {
    private let word: Int

    /// The key of the name with these bytes.
    @inline(__always)
    init(_ name: Span<UInt8>) {
        let count = name.count
        word =
            count == 0 ? 0 : count << 24 | Int(name[0]) << 16 | Int(name[count / 2]) << 8 | Int(name[count - 1])
    }

    private init(word: Int) {
        self.word = word
    }

    /// The key of a name with escapes or beyond ASCII, whose quote is at `position`. No field has a name longer than
    /// `longestName`; such a name gets a key that no field has.
    init(written text: Span<UInt8>, at position: Int) {
        var scanner = JSONScanner(at: position)
        if let name = (try? scanner.readString(in: text, most: Self.longestName)) ?? nil {
            self.init(name.span)
        } else {
            self.init(word: -1)
        }
    }

    /// In bytes.
    private static let longestName = 1024

    /// One of 64 bits. A set of these bits shows at once that most names are not there.
    @inline(__always)
    var bit: UInt64 { 1 << UInt64((word ^ word >> 7 ^ word >> 17 ^ word >> 21) & 63) }
}

extension Span<UInt8> {
    /// Whether both have the same bytes.
    func isEqual(to other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        for index in indices where self[index] != other[index] { return false }
        return true
    }
}
