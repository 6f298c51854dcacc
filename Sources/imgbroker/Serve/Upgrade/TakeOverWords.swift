/// The words of the command lines of a program that takes the place of a running broker (`TakeOver`).
enum TakeOverWords {
    /// The first words.
    static let takeOver = "take-over"
    static let check = "check-state"

    /// The broker's own arguments, in the process that it was started as and in those that have taken its place.
    static var brokerArguments: [String] {
        let words = Array(CommandLine.arguments.dropFirst())
        return words.first == takeOver ? Array(words.dropFirst(2)) : words
    }
}
