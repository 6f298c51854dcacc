/// One line of `imgbroker doctor`.
struct Finding: Equatable {
    let subject: String
    var text: String
    /// What to do about it; nil when all is well.
    var remedy: String?

    init(_ subject: String, _ text: String, unless isWell: Bool = false, _ remedy: String? = nil) {
        (self.subject, self.text, self.remedy) = (subject, text, isWell ? nil : remedy)
    }
}
