internal import Glibc

/// The names of items that a server is asked for, their texts one after the other.
struct ItemNames {
    private var texts: [CChar] = []
    private var lengths: [Int] = []
    /// The offset of each text, and of the end.
    private var starts = [0]

    /// Creates an empty list; `count` names of `length` bytes each are expected.
    init(expecting count: Int = 0, length: Int = 0) {
        texts.reserveCapacity(count * length)
        lengths.reserveCapacity(count)
        starts.reserveCapacity(count + 1)
    }

    var count: Int { lengths.count }
    var isEmpty: Bool { lengths.isEmpty }

    mutating func append(_ prefix: StaticString, _ key: String) {
        unsafe texts.append(
            contentsOf: UnsafeRawBufferPointer(start: prefix.utf8Start, count: prefix.utf8CodeUnitCount)
                .assumingMemoryBound(to: CChar.self))
        var key = key
        key.withUTF8 { unsafe texts.append(contentsOf: UnsafeRawBufferPointer($0).assumingMemoryBound(to: CChar.self)) }
        lengths.append(texts.count - starts[count])
        starts.append(texts.count)
    }

    /// The place of a name, which is looked for from `next` on first: items come in the order of their names, but a
    /// server may send anything.
    func place(of name: UnsafeRawBufferPointer, after next: Int) -> Int? {
        func isName(_ place: Int) -> Bool {
            guard let start = name.baseAddress, name.count == lengths[place] else { return false }
            return unsafe texts.withUnsafeBytes {
                unsafe memcmp(start, $0.baseAddress! + starts[place], name.count) == 0
            }
        }
        for place in next..<count where isName(place) { return place }
        for place in 0..<next where isName(place) { return place }
        return nil
    }

    /// Calls `body` with the beginnings of the texts and their lengths.
    func withTexts<Result>(
        _ body: (UnsafePointer<UnsafePointer<CChar>?>, UnsafePointer<Int>) -> Result
    ) -> Result {
        unsafe texts.withUnsafeBufferPointer { texts in
            unsafe body(starts.dropLast().map { start in unsafe texts.baseAddress.map { unsafe $0 + start } }, lengths)
        }
    }
}
