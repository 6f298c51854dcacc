internal import SystemValues

/// Returns 2000 texts of at most 40 random bytes, half of them behind `beginning`.
package func randomTexts(seed: UInt64, behind beginning: String) -> [[UInt8]] {
    var random = SplitMix64(state: seed)
    return (0..<2000).map { _ in
        let count = Int.random(in: 0...40, using: &random)
        let text = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        return random.once(in: 2) ? Array(beginning.utf8) + text : text
    }
}
