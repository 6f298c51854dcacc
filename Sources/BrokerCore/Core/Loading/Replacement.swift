/// An original that was received in place of another: on trial until a decoding has shown that it is an image.
struct Replacement {
    /// The key of the new original, and the one under which it was requested.
    let key: OriginalKey
    let requested: OriginalKey
    var original: OriginalFacts
    /// Whether it is found in memory, and on disk, from now on.
    let staysInMemory: Bool
    var entersDisk: Bool
    /// The user for whom it was loaded.
    let user: JobOwner.User
    /// The original that was found in memory before.
    let known: OriginalFacts?
    /// The job by which it was loaded.
    let job: JobID
    /// While it is on trial, the original that it has replaced in memory.
    var previous: OriginalFacts?

    /// The hidden key under which that is kept meanwhile; a negative number is no job's.
    var refuge: OriginalKey { key.hidden(as: -job.number) }
}
