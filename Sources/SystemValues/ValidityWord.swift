/// What a slot of the validity page says: which of the pictures that it has named is the last one, and until when that is
/// what a request would get.
package struct ValidityWord: Hashable, Sendable {
    /// Another one each time that the slot is given to a picture.
    package let generation: UInt32
    /// The last tenth of a second of the monotonic clock, exclusive; 0 for what is not valid.
    package let expiry: UInt32

    /// A slot's word.
    package init(generation: UInt32, expiry: UInt32) {
        self.generation = generation
        self.expiry = expiry
    }

    /// A slot's word that is valid until `instant` at most. Readers use a clock that may be late by some milliseconds.
    package init(generation: UInt32, validUntil instant: Instant) {
        let tenths = (instant.nanoseconds - Self.latenessOfClock) / 100_000_000
        self.init(generation: generation, expiry: UInt32(clamping: tenths))
    }

    /// Two ticks of the slowest kernel (100 a second).
    private static let latenessOfClock: Int64 = 20_000_000

    /// The word as it lies in memory.
    package var rawValue: UInt64 { UInt64(generation) << 32 | UInt64(expiry) }

    /// Reads a word.
    package init(rawValue: UInt64) {
        self.init(
            generation: UInt32(truncatingIfNeeded: rawValue >> 32), expiry: UInt32(truncatingIfNeeded: rawValue))
    }
}
