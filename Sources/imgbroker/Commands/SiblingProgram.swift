import LinuxSystem

/// A program beside this one or in ../libexec/imgbroker, which a command becomes.
struct SiblingProgram {
    let name: String
    /// The Debian package that contains it.
    let package: String

    /// Becomes the program; returns the exit status if that is impossible.
    func become(_ arguments: [String]) -> Int32 {
        let own = CurrentProcess.executablePath ?? ""
        let folder = own[..<(own.lastIndex(of: "/") ?? own.startIndex)]
        let places = ["\(folder)/\(name)", "\(folder)/../libexec/imgbroker/\(name)"]
        guard let path = places.first(where: CurrentProcess.exists) else {
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
