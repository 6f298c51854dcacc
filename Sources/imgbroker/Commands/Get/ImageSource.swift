import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LinuxSystem
import SharedCache

/// An operand of `imgbroker get`: a URL, a local file, or standard input.
enum ImageSource {
    case url(String)
    /// A `data:` URL.
    case data(String)
    case file(String)
    case standardInput

    /// Recognises an operand: text with "://" or "data:" before it is a URL, and "-" standard input; anything else is a
    /// path.
    init(_ word: String) {
        self =
            word == "-"
            ? .standardInput : DataURL.isSpelled(word) ? .data(word) : word.contains("://") ? .url(word) : .file(word)
    }

    /// The most sources of a list.
    private static let most = 1_000_000

    /// Reads the list at `path`, or that on standard input for "-": a URL or a path a line, or nothing.
    static func list(_ path: String) throws(UsageError) -> [ImageSource] {
        let text: String
        do throws(SystemError) {
            text = try (path == "-" ? FileDescriptor.standardInput() : .open(readingAt: path)).readToEnd()
        } catch {
            throw UsageError("the list \"\(path)\" cannot be read: \(error)")
        }
        let lines = text.split { $0.isNewline }.filter { !$0.allSatisfy(\.isWhitespace) }
        guard lines.count <= most else { throw UsageError("the list \"\(path)\" has more than \(most) lines") }
        if lines.contains("-") { throw UsageError("the list \"\(path)\" has the line \"-\"") }
        return lines.map { ImageSource(String($0)) }
    }

    /// The name for messages.
    var title: String {
        switch self {
        case .url(let url): url
        case .data(let url): url.utf8.count > 40 ? url.prefix(40) + "…" : url
        case .file(let path): path
        case .standardInput: "standard input"
        }
    }

    /// The name of a file or folder for its result: the last component without its extension, and without dots and
    /// dashes at its beginning. So it never leads elsewhere, hides the file or resembles an option.
    var name: String {
        let plain = nameAndExtension.name.unicodeScalars.drop { $0 == "." || $0 == "-" }
        return plain.isEmpty ? "image" : String(plain)
    }

    /// The extension of the last component; empty without one.
    var fileExtension: String { nameAndExtension.fileExtension }

    private var nameAndExtension: (name: String, fileExtension: String) {
        let path =
            switch self {
            case .url(let url): String(url.prefix { $0 != "?" && $0 != "#" })
            case .file(let path): path
            case .data: "data"
            case .standardInput: "stdin"
            }
        // By scalars, because a combining character makes another character of a slash before it.
        return OutputName.parts(of: path.unicodeScalars.split(separator: "/").last.map(String.init) ?? "image")
    }

    /// Requests the image. Returns the request's id.
    func send(over broker: ImageBroker, _ options: GetOptions) throws(ClientError) -> Int {
        do {
            switch self {
            case .url(let url) where url.lowercased().hasPrefix("file://"):
                let message = "A local file is named by its path, without \"file://\"."
                throw ClientError.refused(WireError(.unsupportedScheme, message))
            case .url(let url): return try broker.send(get: try SourceURL(url), options)
            case .data(let url):
                let bytes = try SealedBuffer.copy(of: try DataURL.bytes(of: url))
                return try broker.send(getFile: bytes.descriptor, options)
            case .file(let path):
                return try broker.send(getFile: try Self.open(path), name: LocalFile.name(ofPath: path), options)
            case .standardInput:
                return try broker.send(getFile: try Self.standardInputFile(), name: "standard input", options)
            }
        } catch let error as ClientError {
            throw error
        } catch let error as SystemError {
            throw .system(error)
        } catch let error as InvalidURL {
            throw .refused(WireError(error))
        } catch {
            throw .protocolViolation("\(error)")
        }
    }

    /// Opens a file. Anything else is refused here, because opening it may wait.
    static func open(_ path: String) throws -> FileDescriptor {
        guard let status = try FileSystem.status(of: path) else {
            let message = "\(path) does not exist; a URL begins with http:// or https://."
            throw ClientError.refused(WireError(.badRequest, message))
        }
        guard status.isRegular else {
            let what =
                status.isDirectory
                ? "a directory. Its files are loaded by: find \(path) -type f | imgbroker get" : "not a regular file."
            throw ClientError.refused(WireError(.badRequest, "\(path) is \(what)"))
        }
        return try FileDescriptor.open(readingAt: path)
    }

    /// The most bytes of a pipe that are read; the broker's own limit is lower by default.
    private static let longestInput = 1 << 30

    /// Standard input itself if it is a regular file, used from its beginning, else a memfd with all its bytes.
    private static func standardInputFile() throws -> FileDescriptor {
        let input = try FileDescriptor.standardInput()
        if try input.status().isRegular { return input }
        let memory = try WritableBuffer(name: "imgbroker-stdin").descriptor
        guard try memory.appendAll(of: input, upTo: longestInput) else {
            throw ClientError.refused(WireError(.tooLarge, "Standard input is longer than \(longestInput) bytes."))
        }
        // Sealed, so that the same bytes are known the next time.
        try memory.seal()
        return memory
    }
}
