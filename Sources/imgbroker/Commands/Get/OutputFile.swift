import IPCProtocol
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

    /// Writes `bytes` to `path`.
    ///
    /// A regular file, or a missing one, appears in one step, so that no reader sees half an image. A device, a pipe or
    /// a symbolic link stays, and is written to. So is the file that is standard output, from its present position, and
    /// an empty file, which its maker may have open (`mktemp`, thumbnail services).
    static func write(_ bytes: UnsafeRawBufferPointer, to path: String) throws(SystemError) {
        if isStandardOutput(path) { return unsafe try FileDescriptor.standardOutput().write(bytes) }
        unsafe try write(bytes, to: path) { () throws(SystemError) in try FileDescriptor.open(writingAt: path) }
    }

    /// Writes like `write(_:to:)` to `path` beneath `folder`. Neither the path nor existing symbolic links may lead out
    /// of the folder (`EXDEV`).
    static func write(_ bytes: UnsafeRawBufferPointer, to path: String, beneath folder: String) throws(SystemError) {
        let root = try FileSystem.openDirectory(folder.isEmpty ? "." : folder)
        let folders = Self.folder(of: path)
        let parent = try FileSystem.openDirectory(folders.isEmpty ? "." : folders, beneath: root)
        let name = String(path.unicodeScalars.dropFirst(folders.unicodeScalars.count))
        unsafe try write(bytes, to: FileSystem.path(ofDescriptor: parent.raw) + "/" + name) {
            () throws(SystemError) in try FileDescriptor.open(writingAt: path, beneath: root)
        }
        withExtendedLifetime(parent) {}
    }

    /// The part of `path` up to its last slash; empty without one.
    static func folder(of path: some StringProtocol) -> String {
        // By scalars, because a combining character makes another character of a slash before it.
        let scalars = String(path).unicodeScalars
        return scalars.lastIndex(of: "/").map { String(scalars[...$0]) } ?? ""
    }

    /// Replaces a regular file or a missing one at `path`, or writes to what `opened` returns, which is the same file.
    private static func write(
        _ bytes: UnsafeRawBufferPointer, to path: String, opened: () throws(SystemError) -> FileDescriptor
    ) throws(SystemError) {
        let status = try FileSystem.status(of: path, followingLinks: false)
        if let status, !status.isRegular || status.size == 0 {
            let file = try opened()
            do {
                return unsafe try file.write(bytes)
            } catch {
                if status.isRegular { try? file.truncate(to: 0) }
                throw error
            }
        }
        // A name of its own, so that no file of the user is lost, and no link that others have made is followed.
        let partial =
            folder(of: path) + ".imgbroker-" + String(UInt64.random(in: .min ... .max), radix: 36) + ".partial"
        let file = try FileDescriptor.create(atFree: partial)
        do {
            unsafe try file.write(bytes)
            try FileDescriptor.rename(partial, to: path)
        } catch {
            try? FileDescriptor.remove(partial)
            throw error
        }
    }
}

/// The names of the files of `get -o`.
enum OutputName {
    /// The words of a pattern that stand for something of each source.
    private static let placeholders: [(word: String, value: @Sendable (ImageSource, Int) -> String)] = [
        ("{name}", { source, _ in source.name }),
        ("{extension}", { source, _ in source.fileExtension }),
        ("{index}", { _, index in String(index + 1) }),
    ]

    /// The files that images are written to: `pattern` with the placeholders replaced for each. No two may be the same.
    static func outputs(_ pattern: String, for sources: [ImageSource]) throws(UsageError) -> [String] {
        if folder(of: pattern) == nil, sources.count > 1 {
            throw UsageError("-o needs {name} in its value for several images, as in \"small/{name}.png\"")
        }
        let outputs = sources.enumerated().map { output(pattern[...], for: $1, $0) }
        var taken: Set<String> = []
        for output in outputs where !taken.insert(output).inserted {
            throw UsageError(
                "two of the images would be written to \"\(output)\": {index} or {extension} in the name tells them apart"
            )
        }
        return outputs
    }

    /// The folder before the first placeholder of `pattern`, up to its last slash; nil without placeholders.
    static func folder(of pattern: String) -> String? {
        let ends = placeholders.compactMap { pattern.unicodeScalars.firstRange(of: $0.word.unicodeScalars)?.lowerBound }
        return ends.min().map { OutputFile.folder(of: pattern[..<$0]) }
    }

    /// Replaces the placeholders of a pattern, but not those in what replaces them.
    private static func output(_ pattern: Substring, for source: ImageSource, _ index: Int) -> String {
        var (result, rest) = ("", pattern)
        while let character = rest.first {
            if let (word, value) = placeholders.first(where: { rest.hasPrefix($0.word) }) {
                result += value(source, index)
                rest = rest.dropFirst(word.count)
            } else {
                result.append(character)
                rest = rest.dropFirst()
            }
        }
        return result
    }

    /// The representation for a file of this name: PNG without an extension, or for a file that exists and is empty,
    /// which its maker has named (`mktemp`), or is a device, a pipe or a link. Others need a format's extension.
    static func representation(named path: String) throws(UsageError) -> GetOptions.Representation {
        switch parts(of: String(path.split(separator: "/").last ?? "")).fileExtension.lowercased() {
        case "jpg", "jpeg": return .jpeg
        case "webp": return .webp
        case "png", "": return .png
        case let other:
            if let status = try? FileSystem.status(of: path, followingLinks: false),
                !status.isRegular || status.size == 0
            {
                return .png
            }
            throw UsageError(
                "\"\(path)\" cannot be written: images are encoded as .png, .jpg, .jpeg and .webp, not as .\(other); --original keeps the bytes"
            )
        }
    }

    static func parts(of name: String) -> (name: String, fileExtension: String) {
        let scalars = name.unicodeScalars
        guard let dot = scalars.lastIndex(of: "."), dot != scalars.startIndex else { return (name, "") }
        return (String(scalars[..<dot]), String(scalars[scalars.index(after: dot)...]))
    }
}
