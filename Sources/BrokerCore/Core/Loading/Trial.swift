/// An original that was received in place of another.
struct Replacement {
    /// The key of the new original, and the one under which it was requested.
    let key: OriginalKey
    let requested: OriginalKey
    let original: OriginalFacts
    /// Whether it is found in memory, and on disk, from now on.
    let staysInMemory: Bool
    let entersDisk: Bool
    /// The user for whom it was loaded.
    let user: JobOwner.User
    /// The original that was found in memory before.
    let known: OriginalFacts?
}

/// A replacement until a decoding has shown that the new bytes are an image.
struct Trial {
    let replacement: Replacement
    /// The original that it has replaced in memory, and the hidden key under which that is kept meanwhile.
    let previous: OriginalFacts?
    let refuge: OriginalKey
}
