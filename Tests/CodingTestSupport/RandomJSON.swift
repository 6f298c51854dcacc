package import SystemValues

/// Writes random JSON texts that use every corner of the grammar.
package struct RandomJSON {
    package private(set) var random: SplitMix64

    package init(seed: UInt64) {
        random = SplitMix64(state: seed)
    }

    /// An object with one member, `v`, of any kind.
    package mutating func message() -> [UInt8] {
        Array(("{" + space() + "\"v\"" + space() + ":" + value(depth: 0) + "}" + space()).utf8)
    }

    /// A message of which a few bytes after the first six were changed, dropped or doubled.
    package mutating func damagedMessage() -> [UInt8] {
        var bytes = Array("{\"v\":".utf8) + message()[5...]
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let index = Int.random(in: 5..<bytes.count, using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0: if bytes.count > 7 { bytes.remove(at: index) }
            case 1: bytes.insert(bytes[index], at: index)
            case 2: bytes[index] = UInt8.random(in: 1...255, using: &random)
            default: bytes[index] = random.pick(Array("{}[]\",:\\/0123456789.eE+-tfn u".utf8))
            }
        }
        return bytes
    }

    private mutating func value(depth: Int) -> String {
        let kinds = depth > 5 ? 6 : 8
        let text: String
        switch Int.random(in: 0..<kinds, using: &random) {
        case 0: text = "null"
        case 1: text = random.pick(["true", "false"])
        case 2, 3: text = number()
        case 4, 5: text = string()
        case 6:
            text = "[" + space() + list { $0.value(depth: depth + 1) } + "]"
        default:
            text =
                "{" + space() + list { $0.space() + $0.string() + $0.space() + ":" + $0.value(depth: depth + 1) } + "}"
        }
        return space() + text + space()
    }

    private mutating func list(_ element: (inout RandomJSON) -> String) -> String {
        (0..<Int.random(in: 0...4, using: &random)).map { _ in element(&self) }.joined(separator: ",")
    }

    private mutating func space() -> String {
        random.once(in: 4) ? random.pick([" ", "\t", "\n", "\r", "  ", "\r\n"]) : ""
    }

    private mutating func number() -> String {
        var text = random.once(in: 3) ? "-" : ""
        text += random.pick(["0", "1", "9", "10", "255", "65536", "4294967296", "9007199254740991", "9007199254740993"])
        if random.once(in: 3) { text += "." + random.pick(["0", "5", "25", "000", "125", "1000000000000001"]) }
        if random.once(in: 3) {
            text += random.pick(["e", "E"]) + random.pick(["", "+", "-"]) + random.pick(["0", "1", "07", "15"])
        }
        return text
    }

    private mutating func string() -> String {
        let pieces = [
            "a", "Z", " ", "/", "é", "ß", "漢", "🎨", "\u{7F}", "\u{2028}", "e\u{301}", "\\\"", "\\\\", "\\/", "\\b",
            "\\f", "\\n", "\\r", "\\t", "\\u0000", "\\u0041", "\\u00e9", "\\uFFFF", "\\u6f22", "\\ud83c\\udfa8",
            "\\uD800\\uDC00",
        ]
        return "\"" + (0..<Int.random(in: 0...6, using: &random)).map { _ in random.pick(pieces) }.joined() + "\""
    }
}

/// Returns 2000 texts of at most 40 random bytes, half of them behind `beginning`.
package func randomTexts(seed: UInt64, behind beginning: String) -> [[UInt8]] {
    var random = SplitMix64(state: seed)
    return (0..<2000).map { _ in
        let count = Int.random(in: 0...40, using: &random)
        let text = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        return random.once(in: 2) ? Array(beginning.utf8) + text : text
    }
}

extension RandomNumberGenerator {
    package mutating func pick<Elements: RandomAccessCollection>(_ elements: Elements) -> Elements.Element {
        elements[elements.index(elements.startIndex, offsetBy: Int.random(in: 0..<elements.count, using: &self))]
    }

    package mutating func once(in count: Int) -> Bool {
        Int.random(in: 0..<count, using: &self) == 0
    }
}
