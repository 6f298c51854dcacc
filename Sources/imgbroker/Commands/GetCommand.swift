import IPCProtocol
import ImageBrokerClient
import JSONCoding
import LinuxSystem
import SharedCache
import SystemValues

/// `imgbroker get`: loads one image as a client of the broker.
enum GetCommand {
    static let usage = """
        Usage: imgbroker get URL [OPTION]...

        Loads one image through the broker, and prints its properties or writes it to a file.

          -o, --output FILE   write the image: as JPEG or WebP when FILE ends in .jpg, .jpeg
                              or .webp, else as PNG, unless --as says otherwise; "-" for
                              standard output, which then has nothing but the image
        \(LoadOptions.usage)
          --stale-first       with --cache no-cache, which it implies: let the broker send the
                              cached image first; only the final image is printed and written
          --progressive       without -o and --json: also print when the image could be shown in
                              part during the download
          --json              print the reply as one JSON object; on standard error when the
                              image is written to standard output
          --socket PATH       the broker's socket (default: $IMGBROKER_SOCKET, then
                              $XDG_RUNTIME_DIR/imgbroker.sock, then /run/imgbroker.sock)
          --help              show this and exit

        Exit status: 0; 1 for an image that failed; 2 for an invalid command line; 3 when no broker answers.
        """

    private struct Request {
        var url = ""
        var options = GetOptions()
        var output: String?
        var asJSON = false
        var socketPath: String?
    }

    /// Runs the command with the words after `get` and returns the exit status.
    static func run(_ words: some Sequence<String>) throws(UsageError) -> Int32 {
        guard let request = try read(words) else {
            StandardOutput.write(usage + "\n")
            return CommandStatus.done
        }
        let bar = request.asJSON ? nil : ProgressBar()
        // Before the file is written: the name may lead elsewhere afterwards.
        let isOutputTaken = request.output.map(OutputFile.isStandardOutput) ?? false
        do throws(ClientError) {
            let broker = try CommandConnection.open(request.socketPath)
            let begun = Instant.now
            let printPartial = { (image: BrokerImage) in
                bar?.clear()
                let (size, passed) = (image.reply, Instant.now.microseconds(since: begun) / 1000)
                StandardOutput.write("partial: \(size.width) × \(size.height) after \(passed) ms\n")
            }
            let image = try broker.get(
                request.url, request.options, partial: request.options.progressive ? printPartial : nil,
                progress: bar.map { bar in { bar.show($0, of: $1) } })
            bar?.clear()
            if let output = request.output { try write(image, to: output) }
            if request.asJSON {
                CommandConnection.printObject(onStandardError: isOutputTaken) {
                    $0.member("type", "image")
                    image.reply.writeMembers(to: &$0)
                }
            } else if !isOutputTaken {
                StandardOutput.write(summary(of: image.reply, writtenTo: request.output) + "\n")
            }
            return CommandStatus.done
        } catch {
            bar?.clear()
            return CommandConnection.report(error, asJSON: request.asJSON, onStandardError: isOutputTaken)
        }
    }

    /// Parses the words after `get`; nil for `--help`.
    private static func read(_ words: some Sequence<String>) throws(UsageError) -> Request? {
        var request = Request()
        var load = LoadOptions()
        var (isStaleFirst, isProgressive) = (false, false)
        var arguments = Arguments(words)
        while let word = try arguments.next() {
            switch word {
            case .operand(let url):
                guard request.url.isEmpty else {
                    throw UsageError(description: "get takes one URL, not also \"\(url)\"")
                }
                request.url = url
            case .flag("--help"), .flag("-h"): return nil
            case .flag("--json"): request.asJSON = true
            case .flag("-o"), .flag("--output"): request.output = try arguments.path(of: "-o")
            case .flag("--socket"): request.socketPath = try arguments.path(of: "--socket")
            case .flag("--stale-first"): isStaleFirst = true
            case .flag("--progressive"): isProgressive = true
            case .flag(let flag):
                if try load.take(flag, &arguments) { continue }
                throw UsageError(description: "unknown option \(flag) (see imgbroker get --help)")
            }
        }
        if request.url.isEmpty { throw UsageError(description: "get needs a URL (see imgbroker get --help)") }
        request.options = load.options
        if isStaleFirst {
            if load.hasCacheMode, request.options.cache != .noCache {
                throw UsageError(description: "--stale-first goes with --cache no-cache only")
            }
            request.options.cache = .noCache
            request.options.staleFirst = true
        }
        if let output = request.output {
            if !load.hasRepresentation { request.options.representation = representation(named: output) }
        } else if !isProgressive {
            request.options.delivery = .none
        }
        if isProgressive, request.output != nil || request.asJSON {
            throw UsageError(description: "--progressive goes with neither -o nor --json")
        }
        request.options.progressive = isProgressive
        return request
    }

    /// The representation for a file of this name.
    private static func representation(named name: String) -> GetOptions.Representation {
        let name = name.lowercased()
        if name.hasSuffix(".jpg") || name.hasSuffix(".jpeg") { return .jpeg }
        return name.hasSuffix(".webp") ? .webp : .png
    }

    private static func write(_ image: BrokerImage, to path: String) throws(ClientError) {
        guard let buffer = image.buffer else { throw .protocolViolation("the buffer is missing") }
        do {
            try OutputFile.write(image.reply.bytes, of: buffer.descriptor, at: image.reply.offset, to: path)
        } catch {
            throw .refused(WireError(.internal, "\(path) could not be written: \(error)."))
        }
    }

    private static func summary(of image: ImageReply, writtenTo path: String?) -> String {
        var words = "\(image.width) × \(image.height), \(image.contentType)"
        if image.stale { words += ", stale" }
        if image.frameCount > 1 { words += ", \(image.frameCount) frames" }
        words += ", \(ByteCount(image.bytes))" + (image.pixels == nil ? "" : " of pixels")
        words += ", from " + (image.source == .network ? "the network" : image.source.rawValue)
        if let path { words += ", written to \(path)" }
        return words
    }
}
