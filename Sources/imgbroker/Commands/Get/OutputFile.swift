import LinuxSystem

/// The file of `get -o`.
enum OutputFile {
    /// Whether `path` leads to standard output: "-", or any name of its file, pipe or terminal, such as `/dev/stdout`.
    static func isStandardOutput(_ path: String) -> Bool {
        if path == "-" { return true }
        guard let file = (try? FileSystem.status(of: path)) ?? nil,
            let output = try? FileDescriptor.standardOutput().status()
        else { return false }
        return file.isSameFile(as: output)
    }

    /// Writes `count` bytes of `source`, from `offset` on, to `path`.
    ///
    /// A regular file, or a missing one, appears in one step, so that no reader sees half an image. A device, a pipe or a
    /// symbolic link stays, and is written to. So is the file that is standard output, from its present position, and an
    /// empty file, which its maker may have open (`mktemp`, thumbnail services).
    ///
    /// - Throws: `SystemError`.
    static func write(_ count: Int, of source: FileDescriptor, at offset: Int, to path: String) throws(SystemError) {
        if isStandardOutput(path) { return try FileDescriptor.standardOutput().append(count, from: source, at: offset) }
        let status = try FileSystem.status(of: path, followingLinks: false)
        if let status, !status.isRegular || status.size == 0 {
            let file = try FileDescriptor.open(writingAt: path)
            do {
                return try file.append(count, from: source, at: offset)
            } catch {
                if status.isRegular { try? file.truncate(to: 0) }
                throw error
            }
        }
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        // A name of its own, so that no file of the user is lost, and no link that others have made is followed.
        let partial = folder + ".imgbroker-" + String(UInt64.random(in: .min ... .max), radix: 36) + ".partial"
        let file = try FileDescriptor.create(atFree: partial)
        do {
            try file.append(count, from: source, at: offset)
            try FileDescriptor.rename(partial, to: path)
        } catch {
            try? FileDescriptor.remove(partial)
            throw error
        }
    }
}
