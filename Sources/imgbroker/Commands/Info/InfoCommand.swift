import IPCProtocol
import ImageBrokerClient
import JSONCoding
import SystemValues

/// `imgbroker info`: describes images by their headers as a client of the broker.
enum InfoCommand {
    static let purpose = """
        Describes images by their headers, without decoding them. A SOURCE is a URL, a local file, or "-"
        for an image on standard input. Of a JPEG, no more than the header is downloaded.
        """

    static let status = "0; 1 if an image has failed; 2 for an invalid command line; 3 when no broker answers."

    /// The flags of `get` that concern the loading of an image.
    private static let flags: Set = [
        "--cache", "--storage", "--priority", "--retry-failed", "--timeout-ms", "--total-timeout-ms", "--header",
        "--credentials", "--cookies", "--cache-key", "--allow-invalid-certificates",
    ]

    private struct Request {
        var load = LoadOptions()
        var asJSON = false
        var socketPath: String?
    }

    private static let options =
        LoadOptions.options.filter { !flags.isDisjoint(with: $0.help.names) }.map { $0.within(\Request.load) }
        + CommandOption<Request>.table([
            "--json": .flag("print one JSON object for each image", \.asJSON),
            "--socket PATH": .socket(\.socketPath),
        ])

    static let help = options.help()

    static let usage = help.usage("info SOURCE... [OPTION]...", purpose, status: status)

    private static let requestsAtOnce = 16

    static func run(_ words: some Sequence<String>) throws(UsageError) -> Int32 {
        var request = Request()
        guard let (_, operands) = try Arguments.read(words, of: "info", options, into: &request) else {
            return StandardOutput.writeHelp(usage)
        }
        let sources = operands.map { ImageSource($0) }
        if sources.isEmpty { throw UsageError("info needs a URL or a file (see imgbroker info --help)") }
        var options = request.load.options
        options.delivery = .header
        do throws(ClientError) {
            let broker = try CommandConnection.open(request.socketPath)
            return try describe(sources, over: broker, options, asJSON: request.asJSON)
        } catch {
            return CommandConnection.report(error, asJSON: request.asJSON)
        }
    }

    /// Prints the description of each source, in their order. Goes on after those that fail.
    private static func describe(
        _ sources: [ImageSource], over broker: ImageBroker, _ options: GetOptions, asJSON: Bool
    ) throws(ClientError) -> Int32 {
        var status = CommandStatus.done
        var (sent, printed) = (0, 0)
        var pending: [Int: Int] = [:]
        var outcomes: [Int: Result<ImageReply, ClientError>] = [:]
        while printed < sources.count {
            while sent < sources.count, sent - printed < requestsAtOnce {
                do throws(ClientError) {
                    pending[try sources[sent].send(over: broker, options)] = sent
                } catch {
                    if error.endsConnection { throw error }
                    outcomes[sent] = .failure(error)
                }
                sent += 1
            }
            if outcomes[printed] == nil {
                switch try broker.receive() {
                case .image(let id, let image):
                    if let index = pending.removeValue(forKey: id) { outcomes[index] = .success(image.reply) }
                case .reply(.error(let id, let error)):
                    guard let id, let index = pending.removeValue(forKey: id) else { throw .refused(error) }
                    outcomes[index] = .failure(.refused(error))
                case .progress, .reply, .event: throw .protocolViolation("a get got a reply of another kind")
                }
            }
            while let outcome = outcomes.removeValue(forKey: printed) {
                let title = sources[printed].title
                switch outcome {
                case .success(let reply) where asJSON:
                    CommandConnection.printObject {
                        $0.member("type", "image")
                        if sources.count > 1 { $0.member("input", title) }
                        reply.writeMembers(to: &$0)
                    }
                case .success(let reply):
                    if printed > 0 { StandardOutput.write("\n") }
                    StandardOutput.write(table(of: reply, title: title))
                case .failure(let error):
                    let source = sources.count > 1 ? title : nil
                    status = CommandConnection.report(error, of: source, asJSON: asJSON)
                }
                printed += 1
            }
        }
        return status
    }

    /// The description of an image as a table: a line with the title, and one for each property that is known.
    private static func table(of reply: ImageReply, title: String) -> String {
        var rows: [(String, String)] = [("size", "\(reply.width) × \(reply.height)")]
        guard let image = reply.description else { return title.escapingDeceptive + "\n" }
        rows.append(("format", "\(image.format.name), \(reply.contentType)"))
        let facts = image.facts
        if let depth = facts.bitDepth { rows.append(("bits per channel", "\(depth)")) }
        rows.append(("alpha", facts.hasAlpha ? "yes" : "no"))
        if reply.frameCount > 1 { rows.append(("frames", "\(reply.frameCount)")) }
        if let loops = facts.loops { rows.append(("loops", loops == 0 ? "endless" : "\(loops)")) }
        if facts.orientation != 1 { rows.append(("orientation", "\(facts.orientation), applied to the size")) }
        if let density = facts.density { rows.append(("dots per inch", "\(density.x) × \(density.y)")) }
        if let profile = facts.profile { rows.append(("colour profile", profile.escapingDeceptive)) }
        let blocks = MetadataKind.allCases.compactMap { kind in
            reply.metadata[kind].map { "\(kind.rawValue) \(ByteCount($0))" }
        }
        if !blocks.isEmpty { rows.append(("metadata", blocks.joined(separator: ", "))) }
        if let length = image.length { rows.append(("length", "\(ByteCount(length))")) }
        if let status = image.status { rows.append(("status", "\(status)")) }
        if let etag = reply.etag { rows.append(("etag", etag.escapingDeceptive)) }
        if let date = image.lastModified { rows.append(("last modified", date.escapingDeceptive)) }
        rows.append(("from", reply.source == .file ? "the file" : reply.source.phrase))
        return title.escapingDeceptive + "\n" + rows.map { "  " + $0.0.padded(to: 18) + $0.1 + "\n" }.joined()
    }
}
