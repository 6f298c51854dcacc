/// One line of `imgbroker doctor`.
struct Finding: Equatable {
    let subject: String
    var text: String
    /// What to do about it; nil when all is well.
    var remedy: String?
}
