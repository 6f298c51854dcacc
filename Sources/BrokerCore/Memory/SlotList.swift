/// A list of slot numbers, of which the first takes no allocation: most lists have one.
struct SlotList: RandomAccessCollection {
    /// The first slot plus 1; 0 for an empty list.
    private var link: UInt32 = 0
    private var rest: [Int] = []

    var startIndex: Int { 0 }
    var endIndex: Int { link == 0 ? 0 : 1 + rest.count }

    subscript(index: Int) -> Int { index == 0 ? Int(link) - 1 : rest[index - 1] }

    mutating func append(_ slot: Int) {
        if link == 0 { link = UInt32(slot + 1) } else { rest.append(slot) }
    }

    mutating func remove(_ slot: Int) {
        if let index = rest.lastIndex(of: slot) {
            rest.remove(at: index)
        } else {
            link = rest.isEmpty ? 0 : UInt32(rest.removeFirst() + 1)
        }
    }
}
