import IPCProtocol
import ImageBrokerClient
import JSONCoding
import LinuxSystem
import SystemValues

/// `imgbroker get`: loads images as a client of the broker.
enum GetCommand {
    static let purpose = """
        Loads images through the broker, and prints their properties, shows them, or writes them to
        files. A SOURCE is a URL, a local file, or "-" for an image on standard input. Without a SOURCE,
        standard input has a list of sources, one in each line.
        """

    static let status = "0; 1 if an image has failed; 2 for an invalid command line; 3 when no broker answers."

    private static let options =
        CommandOption<Request>.table([
            "-o, --output FILE": .value(
                "write the image: as JPEG or WebP when FILE ends in .jpg, .jpeg or .webp, else as PNG, unless --as says otherwise; a WebP has all frames of an animation, unless --frame says which; {name} in FILE is replaced by the source's name without its extension and without dots and dashes at its beginning, {extension} by the extension, and {index} by the number of the source, and no link is followed out of the folder before them; \"-\" for standard output, which then has nothing but the image"
            ) { $0.output = try $1.path() },
            "-i, --input FILE": .value(
                "also load the sources that FILE lists, one in each line; \"-\" for a list on standard input"
            ) { $0.list = try $1.path() },
            "--preview": .flag(
                "show the image in the terminal: by the graphics of kitty or sixel if it has them, else by coloured characters",
                \.isPreview),
        ]) + LoadOptions.options.map { $0.within(\.load) }
        + CommandOption<Request>.table([
            "--stale-first": .flag(
                "with --cache no-cache, which it implies: let the broker send the cached image first; only the final image is printed and written",
                \.isStaleFirst),
            "--progressive": .flag(
                "without -o and --json: also print when the image could be shown in part during the download",
                \.isProgressive),
            "--trace": .flag(
                "also print where the time went: a bar for each part, with \"spans\" in the object of --json",
                \.isTraced),
            "--trace-otlp": .flag(
                "print that in OpenTelemetry's JSON instead, a line for each image that was loaded, below the span that the environment variable TRACEPARENT names",
                \.exportsTrace),
            "--json": .flag(
                "print the reply as one JSON object; on standard error when the image is written to standard output",
                \.asJSON),
            "--socket PATH": .socket(\.socketPath),
        ])

    static let help = options.help()

    static let usage = help.usage("get [SOURCE]... [OPTION]...", purpose, status: status)

    private struct Request {
        // What the flags say.
        var load = LoadOptions()
        var output, list: String?
        var (isPreview, isStaleFirst, isProgressive, isTraced) = (false, false, false, false)
        var exportsTrace = false
        var asJSON = false
        var socketPath: String?

        // What follows from that.
        var sources: [ImageSource] = []
        var options = GetOptions()
        /// Where each image is written to.
        var outputs: [String] = []
        /// The representation of each, if their files' names decide.
        var representations: [GetOptions.Representation] = []
        /// Whether files that can have all frames of an animation get them.
        var keepsFrames = false
        /// The folder that none of them leaves, if their names depend on their sources.
        var outputFolder: String?
        var preview: Preview?
        /// Whether standard output has an image, so that everything else is on standard error.
        var isOutputTaken = false

        /// Whether the results are marked with the names of their sources.
        var areSeveral: Bool { sources.count > 1 }

        func representation(_ index: Int) -> GetOptions.Representation {
            representations.isEmpty ? options.representation : representations[index]
        }
    }

    private static let requestsAtOnce = 16

    static func run(_ words: some Sequence<String>) throws(UsageError) -> Int32 {
        guard let request = try read(words) else { return StandardOutput.writeHelp(usage) }
        do throws(ClientError) {
            return try load(request, over: try CommandConnection.open(request.socketPath))
        } catch {
            return CommandConnection.report(error, asJSON: request.asJSON, onStandardError: request.isOutputTaken)
        }
    }

    /// Loads all images, several at once, and reports each as soon as it is there. Goes on after those that fail.
    private static func load(_ request: Request, over broker: ImageBroker) throws(ClientError) -> Int32 {
        let bar = request.asJSON ? nil : ProgressBar()
        defer { bar?.clear() }
        let begun = Instant.now
        var status = CommandStatus.done
        var options = request.options
        options.progress = bar != nil && !request.areSeveral
        var next = 0
        var pending: [Int: (index: Int, at: Instant, unixNanoseconds: Int)] = [:]
        var summary = LoadSummary()
        func fail(_ index: Int, _ error: ClientError) {
            summary.failed += 1
            bar?.clear()
            let source = request.areSeveral ? request.sources[index].title : nil
            status = CommandConnection.report(
                error, of: source, asJSON: request.asJSON, onStandardError: request.isOutputTaken)
        }
        while next < request.sources.count || !pending.isEmpty {
            while next < request.sources.count, pending.count < requestsAtOnce {
                let index = next
                next += 1
                let (at, unixNanoseconds) = (Instant.now, WallClock.nanoseconds)
                options.representation = request.representation(index)
                if request.keepsFrames {
                    options.variant.frames = options.representation == .webp ? .all : request.options.variant.frames
                }
                do throws(ClientError) {
                    let id = try request.sources[index].send(over: broker, options)
                    pending[id] = (index, at, unixNanoseconds)
                } catch {
                    if error.endsConnection { throw error }
                    fail(index, error)
                }
            }
            if request.areSeveral {
                bar?.show(done: summary.done, failed: summary.failed, of: request.sources.count)
            }
            if pending.isEmpty { continue }
            switch try broker.receive() {
            case .image(let id, let image):
                guard let (index, at, unixNanoseconds) = pending[id] else { continue }
                if !image.reply.final {
                    guard request.options.progressive else { continue }
                    bar?.clear()
                    let (size, passed) = (image.reply, Instant.now.microseconds(since: begun) / 1000)
                    StandardOutput.write("partial: \(size.width) × \(size.height) after \(passed) ms\n")
                    continue
                }
                pending[id] = nil
                do throws(ClientError) {
                    bar?.clear()
                    let microseconds = Instant.now.microseconds(since: at)
                    try report(image, index, of: request)
                    if request.options.trace {
                        let load = TraceExport.Load(
                            source: TraceExport.shortened(request.sources[index].title), arrival: unixNanoseconds,
                            microseconds: microseconds, reply: image.reply)
                        printTrace(load, of: request)
                    }
                    summary.add(image.reply)
                } catch {
                    fail(index, error)
                }
            case .progress(_, let received, let expected): bar?.show(received, of: expected)
            case .reply(.error(let id, let error)):
                guard let id, let index = pending.removeValue(forKey: id)?.index else { throw .refused(error) }
                fail(index, .refused(error))
            case .reply, .event: throw .protocolViolation("a get got a reply of another kind")
            }
        }
        if request.areSeveral, !request.asJSON {
            bar?.clear()
            StandardError.writeLines(summary.text(milliseconds: Instant.now.microseconds(since: begun) / 1000) + "\n")
        }
        return status
    }

    private static func printTrace(_ load: TraceExport.Load, of request: Request) {
        // The object has the spans.
        if request.asJSON { return }
        let text: String
        if request.exportsTrace {
            let parent = CurrentProcess.environment("TRACEPARENT").flatMap(TraceExport.Parent.init)
            text = TraceExport(parent: parent).line(load)
        } else {
            let columns = (request.isOutputTaken ? Terminal.ofStandardError : Terminal.ofStandardOutput)?.columns
            let variables = ["LC_ALL", "LC_CTYPE", "LANG"]
            let locale = variables.lazy.compactMap(CurrentProcess.environment).first { !$0.isEmpty }
            let isUTF8 = locale.map { $0.uppercased().contains("UTF") } ?? true
            let total = "\(load.microseconds / 1000).\(load.microseconds / 100 % 10) ms"
            text = Waterfall(columns: columns ?? 80, isASCII: !isUTF8)
                .text(of: load.reply.spans, title: "\(load.source): \(total)")
        }
        if request.isOutputTaken { StandardError.writeLines(text) } else { StandardOutput.write(text) }
    }

    /// Writes or shows an image, and prints its properties.
    private static func report(_ image: BrokerImage, _ index: Int, of request: Request) throws(ClientError) {
        let output = request.outputs.isEmpty ? nil : request.outputs[index]
        if let output { try write(image, to: output, beneath: request.outputFolder) }
        request.preview?.show(image)
        let title = request.areSeveral ? request.sources[index].title : nil
        if let output, request.keepsFrames, image.reply.frameCount > 1,
            [.png, .jpeg].contains(request.representation(index))
        {
            StandardError.writeLines(
                "imgbroker: \(output) has the first of \(image.reply.frameCount) frames: a .webp has all of an animation\n"
            )
        }
        if request.exportsTrace { return }
        if request.asJSON {
            CommandConnection.printObject(onStandardError: request.isOutputTaken) {
                $0.member("type", "image")
                if let title { $0.member("input", title) }
                image.reply.writeMembers(to: &$0)
            }
        } else if !request.isOutputTaken {
            let properties = properties(of: image.reply, writtenTo: output)
            StandardOutput.write((title.map { "\($0): " } ?? "") + properties + "\n")
        }
    }

    /// Parses the words after `get`; nil for `--help`.
    private static func read(_ words: some Sequence<String>) throws(UsageError) -> Request? {
        var request = Request()
        guard let (flags, operands) = try Arguments.read(words, of: "get", options, into: &request) else { return nil }
        request.sources = operands.map { ImageSource($0) }
        let list = request.list ?? (operands.isEmpty && !Terminal.isStandardInput ? "-" : nil)
        if let list { request.sources += try ImageSource.list(list) }
        if request.sources.isEmpty { throw UsageError("get needs a URL or a file (see imgbroker get --help)") }
        request.options = request.load.options
        if request.isStaleFirst {
            if flags.contains("--cache"), request.options.cache != .noCache {
                throw UsageError("--stale-first goes with --cache no-cache only")
            }
            request.options.cache = .noCache
            request.options.staleFirst = true
        }
        if let output = request.output {
            request.outputs = try OutputName.outputs(output, for: request.sources)
            request.outputFolder = OutputName.folder(of: output)
            request.keepsFrames =
                !flags.contains("--frame") && request.options.preset == nil
                && request.options.representation != .original
            if !flags.contains("--as"), !flags.contains("--original") {
                request.representations = try request.outputs.map(OutputName.representation)
            }
            // Before a file is written: its name may lead elsewhere afterwards.
            request.isOutputTaken = request.outputs.contains(where: OutputFile.isStandardOutput)
        } else if !request.isProgressive, !request.isPreview {
            request.options.delivery = .none
        }
        if request.isPreview {
            if request.output != nil || request.asJSON || request.isProgressive {
                throw UsageError("--preview goes with none of -o, --json and --progressive")
            }
            if request.options.preset != nil {
                throw UsageError("--preview does not go with --preset, whose size is fixed")
            }
            guard let preview = Preview() else { throw UsageError("--preview needs a terminal on standard output") }
            preview.adapt(&request.options)
            request.preview = preview
        }
        if request.isProgressive, request.output != nil || request.asJSON || request.areSeveral {
            throw UsageError("--progressive goes with one image, and with neither -o nor --json")
        }
        if request.exportsTrace, request.asJSON || request.isPreview || request.isProgressive {
            throw UsageError("--trace-otlp goes with none of --json, --preview and --progressive")
        }
        request.options.progressive = request.isProgressive
        request.options.trace = request.isTraced || request.exportsTrace
        return request
    }

    /// Writes an image to `path`, which begins with `folder` if that is given.
    private static func write(_ image: BrokerImage, to path: String, beneath folder: String?) throws(ClientError) {
        do {
            try unsafe image.withUnsafeBytes { bytes in
                if let folder {
                    let rest = String(path.unicodeScalars.dropFirst(folder.unicodeScalars.count))
                    unsafe try OutputFile.write(bytes, to: rest, beneath: folder)
                } else {
                    unsafe try OutputFile.write(bytes, to: path)
                }
            }
        } catch {
            let leadsOut = (error as? SystemError)?.code == SystemError.leadsOut
            let message =
                leadsOut
                ? "\(path) leads out of the folder before {name}: remove the link, or write elsewhere."
                : "\(path) could not be written: \(error)."
            throw .refused(WireError(.diskFailed, message))
        }
    }

    private static func properties(of image: ImageReply, writtenTo path: String?) -> String {
        var words = "\(image.width) × \(image.height), \(image.contentType)"
        if image.stale { words += ", stale" }
        if image.frameCount > 1 { words += ", \(image.frameCount) frames" }
        words += ", \(ByteCount(image.bytes))" + (image.pixels == nil ? "" : " of pixels")
        words += ", from " + (image.source == .file ? "the file" : image.source.phrase)
        if image.embedded { words += ", of a preview" }
        if let damage = image.damage { words += ", damaged (\(damage.escapingDeceptive))" }
        if let path { words += ", written to \(path)" }
        return words
    }
}

struct LoadSummary {
    private var counts: [ImageReply.Source: Int] = [:]
    private var bytes = 0
    private(set) var done = 0
    var failed = 0

    mutating func add(_ image: ImageReply) {
        done += 1
        bytes += image.bytes
        counts[image.source, default: 0] += 1
    }

    /// One line, for loads that took `milliseconds`.
    func text(milliseconds: Int) -> String {
        let tenths = max(1, (milliseconds + 50) / 100)
        let images = done == 1 ? "image" : "images"
        var parts = ["\(done) \(images) in \(tenths / 10).\(tenths % 10) s, \(ByteCount(bytes))"]
        for source in ImageReply.Source.allCases {
            if let count = counts[source] { parts.append("\(count) from \(source.phrase)") }
        }
        if failed > 0 { parts.append("\(failed) failed") }
        return parts.joined(separator: ", ")
    }
}

extension ImageReply.Source {
    /// The words after "from".
    var phrase: String {
        switch self {
        case .network: "the network"
        case .file: "files"
        case .memory, .disk: rawValue
        case .shared: "the fleet"
        }
    }
}
