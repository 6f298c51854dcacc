/// One line of `imgbroker doctor`.
struct Finding: Equatable {
    let subject: String
    var text: String
    /// What to do about it; nil when all is well.
    var remedy: String?
}

extension Finding {
    /// A finding with a remedy unless all is well.
    init(_ subject: String, _ text: String, unless isWell: Bool, _ remedy: String) {
        self.init(subject: subject, text: text, remedy: isWell ? nil : remedy)
    }
}
