extension RandomNumberGenerator {
    /// Returns one of `elements`.
    package mutating func pick<Elements: RandomAccessCollection>(_ elements: Elements) -> Elements.Element {
        elements[elements.index(elements.startIndex, offsetBy: Int.random(in: 0..<elements.count, using: &self))]
    }

    /// Returns true once in `count` times.
    package mutating func once(in count: Int) -> Bool {
        Int.random(in: 0..<count, using: &self) == 0
    }
}
