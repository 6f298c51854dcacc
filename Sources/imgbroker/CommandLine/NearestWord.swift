extension UsageError {
    /// The error for an unknown option of `command` ("imgbroker get").
    static func unknown(option: String, among help: [FlagHelp], of command: String) -> UsageError {
        let guess = suggestion(for: option, among: help.flatMap(\.names))
        return UsageError("unknown option \(option)\(guess) (see \(command) --help)")
    }

    /// ": did you mean WORD?" for the first of `words` with the least edit distance; empty if that is more than a third of
    /// the length.
    static func suggestion(for word: String, among words: some Sequence<String>) -> String {
        let written = Array(word.utf8.prefix(64))
        let most = max(1, written.count { $0 != UInt8(ascii: "-") } / 3)
        let nearest = words.map { (word: $0, distance: distance(written, Array($0.utf8))) }
            .filter { $0.distance <= most }
            .min { $0.distance < $1.distance }
        return nearest.map { ": did you mean \($0.word)?" } ?? ""
    }

    /// The number of bytes to insert, remove, replace, or exchange with the next one (optimal string alignment distance).
    private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var (before, last) = ([Int](), Array(0...right.count))
        for (i, a) in left.enumerated() {
            var row = [i + 1]
            for (j, b) in right.enumerated() {
                var least = min(last[j + 1] + 1, row[j] + 1, last[j] + (a == b ? 0 : 1))
                if i > 0, j > 0, a == right[j - 1], left[i - 1] == b { least = min(least, before[j - 1] + 1) }
                row.append(least)
            }
            (before, last) = (last, row)
        }
        return last[right.count]
    }
}
