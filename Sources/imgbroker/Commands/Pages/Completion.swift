/// The shells with completions for the command line, which are made of the same tables as the help.
enum Completion: String, CaseIterable {
    case bash, zsh, fish
}
