/// The contents of a slot of the validity page: the generation of the image that has the slot, and the time until which
/// a request would return that image.
package struct ValidityWord: Hashable, Sendable {
    /// Changes whenever the slot is given to an image.
    package let generation: UInt32
    /// The end of validity in tenths of a second of the monotonic clock, exclusive; 0 when invalid.
    package let expiry: UInt32

    /// A slot's word.
    package init(generation: UInt32, expiry: UInt32) {
        self.generation = generation
        self.expiry = expiry
    }

    /// A word that is valid until `instant` at most. Readers use a clock that may be some milliseconds late.
    package init(generation: UInt32, validUntil instant: Instant) {
        let tenths = (instant.nanoseconds - Self.latenessOfClock) / 100_000_000
        self.init(generation: generation, expiry: UInt32(clamping: tenths))
    }

    /// Two ticks of the slowest kernel (100 a second).
    private static let latenessOfClock: Int64 = 20_000_000

    /// The word as in memory.
    package var rawValue: UInt64 { UInt64(generation) << 32 | UInt64(expiry) }

    /// Reads a word.
    package init(rawValue: UInt64) {
        self.init(
            generation: UInt32(truncatingIfNeeded: rawValue >> 32), expiry: UInt32(truncatingIfNeeded: rawValue))
    }
}
