/// The command lines of a program that takes the place of a running broker, by `execve` in the same process.
///
///     imgbroker take-over FD [OPTION]...     serves with the state behind the descriptor
///     imgbroker check-state [OPTION]...      exits with 0 if it could, with the state as descriptor 3
enum TakeOver {
    /// The first words of the command lines.
    static let word = "take-over"
    static let checkWord = "check-state"

    /// The broker's own arguments, in the process that it was started as and in those that have taken its place.
    static var brokerArguments: [String] {
        let words = Array(CommandLine.arguments.dropFirst())
        return words.first == word ? Array(words.dropFirst(2)) : words
    }
}
