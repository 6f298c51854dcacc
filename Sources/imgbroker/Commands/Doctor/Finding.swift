/// One line of `imgbroker doctor`.
struct Finding: Equatable {
    let subject: String
    let text: String
    /// What to do about it; nil when all is well.
    let remedy: String?
}
