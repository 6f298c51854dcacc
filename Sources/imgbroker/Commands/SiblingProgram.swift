import LinuxSystem

/// A program beside this one or in ../libexec/imgbroker, which a command becomes.
struct SiblingProgram {
    let name: String
    /// The Debian package that contains it.
    let package: String

    /// The folders of programs, the one that comes before the other first.
    static var folders: [String] {
        guard let own = CurrentProcess.executablePath, let slash = own.lastIndex(of: "/") else { return [] }
        return [String(own[..<slash]), own[..<slash] + "/../libexec/imgbroker"]
    }

    /// The path of the program; nil if it is not installed.
    var path: String? { Self.folders.map { "\($0)/\(name)" }.first(where: CurrentProcess.exists) }

    /// Becomes the program; returns the exit status if that is impossible.
    func become(_ arguments: [String]) -> Int32 {
        guard let path else {
            StandardError.write(
                "the program \(name) is neither beside imgbroker nor in ../libexec/imgbroker: install the package \(package)"
            )
            return CommandStatus.failed
        }
        do {
            try CurrentProcess.become(program: path, [name] + arguments)
        } catch {
            StandardError.write("\(path) cannot be run: \(error)")
            return CommandStatus.failed
        }
    }
}
