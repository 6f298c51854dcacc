/// Reads numbers that follow one another in a range of a file.
package struct NumberReader {
    package private(set) var rest: Range<Int>

    /// Creates a reader of `range`, which lies in the file.
    package init(_ range: Range<Int>) { rest = range }

    /// Reads a number of `size` bytes: 0, which means 0, 1, 2, 4 or 8. Numbers above 2^56 become 2^56, which exceeds
    /// every file. Returns nil at the end, and for any other size.
    package mutating func next(_ bytes: Span<UInt8>, _ size: Int) -> Int? {
        guard [0, 1, 2, 4, 8].contains(size), size <= rest.count else { return nil }
        defer { rest = rest.lowerBound + size..<rest.upperBound }
        guard size == 8 else { return bytes.integer(at: rest.lowerBound, bytes: size, .big) }
        let low = bytes.integer(at: rest.lowerBound + 1, bytes: 7, .big)
        return bytes[rest.lowerBound] == 0 ? low : 1 << 56
    }
}
