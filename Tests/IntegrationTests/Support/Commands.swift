import TestSupport

/// Runs `imgbroker` with its words.
func imgbroker(_ words: [String], environment: [String] = []) throws -> ProgramResult {
    try run(BuiltProducts.folder + "/imgbroker", words, environment: environment)
}

extension TestBroker {
    /// Runs a command of `imgbroker` that connects to this broker.
    func run(_ words: [String]) throws -> ProgramResult { try imgbroker(words + ["--socket", socketPath]) }
}

extension ProgramResult {
    /// The lines of its standard error.
    var errorLines: [Substring] { errors.split(separator: "\n") }
}
