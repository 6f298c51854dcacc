/// The shells with completions for the command line.
enum Completion: String, CaseIterable {
    case bash, zsh, fish
}
