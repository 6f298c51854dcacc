/// Keys by round-robin. A key that is passed over for a while keeps its turn.
struct TurnOrder<Key: Hashable> {
    /// The key with the lowest number is next. `isInLine` says whether the line has an entry with this number.
    private var turns: [Key: (number: Int, isInLine: Bool)] = [:]
    private var line = MinHeap<Int, Key>()
    private var lastNumber = 0

    /// The number of keys, in line or not.
    var count: Int { turns.count }

    /// Puts a key in line: at its turn, or at the end if it is new.
    mutating func enter(_ key: Key) {
        let number = turns[key]?.number ?? nextNumber()
        guard turns[key]?.isInLine != true else { return }
        turns[key] = (number, true)
        line.insert(key, key: number)
    }

    /// Takes the first key out of the line. It keeps its turn until it enters again.
    mutating func pauseFirst() {
        guard let key = first() else { return }
        line.popFirst()
        turns.change(key) { $0.isInLine = false }
    }

    mutating func moveToEnd(_ key: Key) {
        guard let turn = turns[key] else { return }
        let number = nextNumber()
        turns.change(key) { $0.number = number }
        guard turn.isInLine else { return }
        line.insert(key, key: number)
        sweep()
    }

    mutating func remove(_ key: Key) {
        if turns.removeValue(forKey: key) != nil { sweep() }
    }

    mutating func first() -> Key? {
        while let (number, key) = line.first {
            if let turn = turns[key], turn.isInLine, turn.number == number { return key }
            line.popFirst()
        }
        return nil
    }

    private mutating func sweep() {
        let turns = turns
        line.sweep(live: turns.count) { turns[$1]?.number == $0 }
    }

    private mutating func nextNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }
}
