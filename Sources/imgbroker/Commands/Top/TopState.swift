/// The user's choices in `ctl top`.
struct TopState: Equatable {
    /// An order of the rows of origins and users.
    enum Order: String, CaseIterable {
        /// Origins by mean time, users by their share.
        case mean
        /// Origins by total time, users by their share.
        case time
        case requests, failed, bytes
    }

    enum Key: Equatable {
        case character(Character)
        case left, right, escape
    }

    /// The seconds between two requests that `+` and `-` choose from.
    private static let intervals = [1, 2, 5, 10, 30, 60]

    var order = Order.mean
    var isPaused = false
    var isHelpShown = false
    /// The seconds between two requests for the statistics.
    var interval = 1

    /// Changes the state by a key; false when the program is to end.
    mutating func press(_ key: Key) -> Bool {
        switch key {
        case .character("q"), .character("Q"): return false
        case .character("p"), .character(" "): isPaused.toggle()
        case .character("s"), .right: turnOrder(1)
        case .character("S"), .left: turnOrder(-1)
        case .character("h"), .character("?"): isHelpShown.toggle()
        case .character("+"): interval = Self.intervals.first { $0 > interval } ?? interval
        case .character("-"): interval = Self.intervals.last { $0 < interval } ?? interval
        case .escape: isHelpShown = false
        case .character: break
        }
        return true
    }

    private mutating func turnOrder(_ step: Int) {
        let (all, place) = (Order.allCases, Order.allCases.firstIndex(of: order) ?? 0)
        order = all[(place + step + all.count) % all.count]
    }

    /// The keys of which a terminal has sent `bytes`. Sequences of other keys are ignored.
    static func keys(_ bytes: [UInt8]) -> [Key] {
        var (keys, rest): ([Key], ArraySlice<UInt8>) = ([], bytes[...])
        while let byte = rest.popFirst() {
            guard byte == 0x1B else {
                if byte < 0x7F, byte >= 0x20 { keys.append(.character(Character(Unicode.Scalar(byte)))) }
                continue
            }
            guard let introducer = rest.first, introducer == UInt8(ascii: "[") || introducer == UInt8(ascii: "O") else {
                keys.append(.escape)
                continue
            }
            // Parameters, and a final byte.
            let sequence = rest.dropFirst().drop { (0x20...0x3F).contains($0) }
            switch sequence.first {
            case UInt8(ascii: "C"): keys.append(.right)
            case UInt8(ascii: "D"): keys.append(.left)
            default: break
            }
            rest = sequence.dropFirst()
        }
        return keys
    }
}
