import Digests
import ImageBrokerClient
import JSONCoding
import LinuxSystem
import SystemValues
import WebServing

/// Answers requests over HTTP with images that the broker makes. Its methods are called on the threads of the server's
/// connections.
struct ImageServer: WebApplication {
    /// The time for an image, in milliseconds.
    static let deadline = 50_000
    /// The silence in milliseconds after which the broker is asked for a sign of life.
    private static let patience = 5000
    /// The name by which the broker counts the requests of this program.
    private static let client = "imgbroker-http/\(ProductVersion.current)"

    /// The path of the broker's socket.
    let path: String
    /// The names that are accepted in Host fields; nil to accept any, at a Unix socket.
    let hosts: HostGuard?
    let secrets: Secrets
    var limits: ConnectionTable.Limits = Self.limits(bodyBytes: 64 << 20)
    private let start = Instant.now

    static func limits(bodyBytes: Int) -> ConnectionTable.Limits {
        var limits = ConnectionTable.Limits()
        (limits.connections, limits.share, limits.healthReserve) = (64, 64, 4)
        (limits.bodyMilliseconds, limits.sendMilliseconds) = (60_000, 30_000)
        limits.headerBytes = 32 << 10
        (limits.bodyBytes, limits.totalBytes) = (bodyBytes, 4 * bodyBytes)
        return limits
    }

    // MARK: Requests

    func isHealthCheck(_ request: WebRequest) -> Bool { request.path == "/health" }

    func refuse(_ request: WebRequest) -> WebAnswer? {
        do throws(HTTPProblem) {
            // RFC 9112, section 3.2.
            if request.hostFields > 1 { throw HTTPProblem("the request has several Host fields") }
            guard hosts?.accepts(request.host) ?? true else {
                throw HTTPProblem(
                    421, "this server does not have that name: start imgbroker http with --allow-host NAME")
            }
            let isPipeline = request.path == "/pipeline"
            switch request.method {
            case "POST" where isPipeline: break
            case "GET" where !isPipeline, "HEAD" where !isPipeline: return nil
            default: throw HTTPProblem(405, "method not allowed")
            }
            _ = try pipeline(request)
            if request.length ?? 0 > limits.bodyBytes { throw Self.tooLarge(limits) }
            return nil
        } catch { return error.answer }
    }

    func answer(_ request: WebRequest, _ exchange: Exchange) -> WebAnswer {
        do throws(HTTPProblem) {
            switch request.path {
            case "/health": return try health()
            case "/pipeline":
                return try answer(try pipeline(request), request, exchange)
            default: return try answer(ImgproxyRequest(target: request.target), request, exchange)
            }
        } catch { return error.answer }
    }

    var busy: WebAnswer { HTTPProblem(503, "there are too many requests", retryAfter: 1).answer }

    func refusal(_ reason: WebRefusal) -> [UInt8]? {
        switch reason {
        case .tooSlow: HTTPProblem(408, "the request took too long").answer.message(reason: "Request Timeout")
        case .busy: busy.message(reason: "Service Unavailable")
        case .tooLarge: Self.tooLarge(limits).answer.message(reason: "Content Too Large")
        case .noRoom: Self.noRoom.answer.message(reason: "Service Unavailable")
        }
    }

    private static func tooLarge(_ limits: ConnectionTable.Limits) -> HTTPProblem {
        HTTPProblem(413, "the image has more than \(limits.bodyBytes) bytes")
    }

    private static let noRoom = HTTPProblem(503, "there are too many bytes of images in flight", retryAfter: 1)

    private func pipeline(_ request: WebRequest) throws(HTTPProblem) -> ImaginaryPipeline {
        let pipeline = try ImaginaryPipeline(target: request.target)
        guard secrets.accept(imaginaryKey: request.apiKey ?? pipeline.key) else {
            throw HTTPProblem(401, "invalid or missing API key")
        }
        return pipeline
    }

    // MARK: Answers

    /// The seconds since the start, as in Imaginary's report, and the broker's name and version.
    private func health() throws(HTTPProblem) -> WebAnswer {
        do throws(ClientError) {
            let broker = try ImageBroker(path: path, patience: Self.patience)
            let server = try broker.hello(client: Self.client).server
            return WebAnswer(200) {
                $0.member("uptime", Instant.now.microseconds(since: start) / 1_000_000)
                $0.member("broker", server)
            }
        } catch { throw HTTPProblem(error) }
    }

    private func answer(
        _ pipeline: ImaginaryPipeline, _ request: WebRequest, _ exchange: Exchange
    ) throws(HTTPProblem) -> WebAnswer {
        let file: FileDescriptor?
        do { file = try exchange.seal() } catch { throw Self.noRoom }
        guard let file else { throw HTTPProblem("empty or unreadable image") }
        let image = try image(pipeline.rendition, accept: request.accept) { (broker, options) throws(ClientError) in
            try broker.get(file: file, name: "imghttp", options)
        }
        var answer = try answer(image, exchange)
        answer.fields.append(WebAnswer.Field("Image-Width", "\(image.reply.width)"))
        answer.fields.append(WebAnswer.Field("Image-Height", "\(image.reply.height)"))
        return answer
    }

    private func answer(
        _ imgproxy: ImgproxyRequest, _ request: WebRequest, _ exchange: Exchange
    ) throws(HTTPProblem) -> WebAnswer {
        guard secrets.accept(imgproxy.signature, of: imgproxy.signed) else {
            throw HTTPProblem(403, "invalid signature")
        }
        let now = WallClock.milliseconds / 1000
        if let expires = imgproxy.expires, expires < now { throw HTTPProblem(404, "the URL has expired") }
        let image = try image(imgproxy.rendition, accept: request.accept) { (broker, options) throws(ClientError) in
            try broker.get(imgproxy.source, options)
        }
        var answer = try answer(image, exchange)
        let tag = "\"\(SHA256.hexadecimalDigest(of: answer.body).prefix(32))\""
        let age = image.reply.expires.map { max(0, $0 - now) } ?? 0
        let fields =
            [
                WebAnswer.Field("ETag", tag),
                WebAnswer.Field("Cache-Control", age > 0 ? "max-age=\(age)" : "no-cache"),
            ] + (imgproxy.rendition.format == .accepted ? [WebAnswer.Field("Vary", "Accept")] : [])
        answer.fields += fields
        if Self.matches(request.ifNoneMatch, tag) {
            answer = WebAnswer(304, contentType: "", [])
            answer.fields = fields
        }
        return answer
    }

    /// Whether an entity tag of an If-None-Match field is equal by weak comparison (RFC 9110, section 8.8.3.2).
    static func matches(_ field: String?, _ tag: String) -> Bool {
        field?.split(separator: ",").contains { ["*", tag, "W/" + tag].contains($0.trimming()) } ?? false
    }

    private func answer(_ image: BrokerImage, _ exchange: Exchange) throws(HTTPProblem) -> WebAnswer {
        guard exchange.reserve(image.reply.bytes) else { throw Self.noRoom }
        let bytes = image.withBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Array($0) } }
        var answer = WebAnswer(200, contentType: image.reply.contentType, bytes)
        answer.fields.append(WebAnswer.Field("X-Content-Type-Options", "nosniff"))
        return answer
    }

    /// Has the broker make an image by `get`, over a connection of its own.
    private func image(
        _ rendition: Rendition, accept: String?,
        _ get: (ImageBroker, GetOptions) throws(ClientError) -> BrokerImage
    ) throws(HTTPProblem) -> BrokerImage {
        let end = Instant.now.adding(milliseconds: Self.deadline)
        do throws(ClientError) {
            let broker = try ImageBroker(path: path, patience: Self.patience, client: Self.client)
            func timed(_ options: GetOptions) throws(ClientError) -> BrokerImage {
                var options = options
                options.totalTimeoutMs = max(1, end.microseconds(since: .now) / 1000)
                return try get(broker, options)
            }
            var known: (source: Rendition.Source, description: ImageReply.Description)?
            func header() throws(ClientError) -> (source: Rendition.Source, description: ImageReply.Description) {
                if let known { return known }
                var options = GetOptions()
                options.delivery = .header
                let reply = try timed(options).reply
                guard let description = reply.description, reply.width > 0, reply.height > 0 else {
                    throw .protocolViolation("a header has no description")
                }
                let source = Rendition.Source(
                    width: reply.width, height: reply.height, isVector: description.format == .svg)
                known = (source, description)
                return (source, description)
            }
            let format =
                switch rendition.format {
                case .fixed(let format): format
                case .source: try header().description.representation
                case .accepted:
                    try AcceptedFormats(accept).format { () throws(ClientError) in
                        try header().description.facts.hasAlpha
                    }
                }
            let options = rendition.options(as: format, of: rendition.dependsOnSource ? try header().source : nil)
            do throws(ClientError) { return try timed(options) } catch {
                guard let others = Rendition.options(options, after: error) else { throw error }
                return try timed(others)
            }
        } catch { throw HTTPProblem(error) }
    }
}
