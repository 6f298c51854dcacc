/// Pseudo-random numbers from a seed (SplitMix64: Steele, Lea, Flood, OOPSLA 2014), so that a run can be repeated.
package struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    /// Creates a generator with a seed.
    package init(state: UInt64) {
        self.state = state
    }

    /// Generates the next number.
    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
