internal import CDashboard
import IPCProtocol
import ImageBrokerClient
import JSONCoding
import LinuxSystem
import SystemValues
import WebServing

/// Answers requests over HTTP from what the broker says, on the threads of the server's connections.
final class Exporter: Sendable {
    /// The time for which the broker's statistics are given again, however many readers there are.
    private static let milliseconds = 200
    private let figures: Locked<(reader: StatsReader, answer: StatsReader.Answer, askedAt: Instant?)>
    private let health: HealthCheck
    private let thumbnails: Thumbnails?
    private let hosts: HostGuard

    init(path: String, hosts: HostGuard, thumbnails: Thumbnails?) {
        figures = Locked((StatsReader(path: path, patience: 1000), StatsReader.Answer(), nil))
        health = HealthCheck(path: path)
        self.hosts = hosts
        self.thumbnails = thumbnails
    }

    func answer(_ request: WebRequest) -> WebAnswer {
        // RFC 9112, section 3.2.
        if request.hostFields > 1 { return Self.line(400, "The request has several Host fields.") }
        guard hosts.accepts(request.host) else {
            return Self.line(
                421, "This server does not have that name: start imgbroker exporter with --allow-host NAME.")
        }
        guard ["GET", "HEAD"].contains(request.method) else {
            return Self.line(405, "Only GET and HEAD are supported.")
        }
        switch Resource(path: request.path) {
        case .dashboard: return Self.answer("text/html; charset=utf-8", unsafe Self.bytes(of: cdashboard_html()))
        case .script: return Self.answer("text/javascript; charset=utf-8", unsafe Self.bytes(of: cdashboard_script()))
        case .style: return Self.answer("text/css; charset=utf-8", unsafe Self.bytes(of: cdashboard_style()))
        case .metrics:
            let answer = readFigures()
            let text = Metrics.text(of: answer.report, server: answer.server)
            return Self.answer("text/plain; version=0.0.4; charset=utf-8", Array(text.utf8))
        case .status:
            let answer = readFigures()
            let status = DashboardStatus(
                report: answer.report, server: answer.server, problem: answer.problem?.description,
                thumbnails: thumbnails?.update())
            return Self.answer("application/json", status.json)
        case .health:
            if let problem = health.problem() { return Self.line(503, problem) }
            return Self.line(200, "ok")
        case .icon: return Self.answer(Self.plainText, [])
        case .thumbnail(let number):
            guard let png = thumbnails?.png(number) else { return Self.line(404, "There is no such thumbnail.") }
            return Self.answer("image/png", png)
        case nil: return Self.line(404, "There is no such page: there are /, /metrics and /health.")
        }
    }

    /// The present statistics, or why there are none. Waits 2 s for a broker that hangs, at most 4 s.
    private func readFigures() -> StatsReader.Answer {
        figures.withLock { figures in
            if let askedAt = figures.askedAt, Instant.now < askedAt.adding(milliseconds: Self.milliseconds) {
                return figures.answer
            }
            figures.answer = figures.reader.read()
            figures.askedAt = Instant.now
            return figures.answer
        }
    }

    private static func bytes(of file: cdashboard_file) -> [UInt8] {
        unsafe Array(UnsafeBufferPointer(start: file.bytes, count: file.length))
    }

    /// Whether the broker answers now, and shows all figures; a message if not.
    var warning: String? {
        let answer = readFigures()
        guard let report = answer.report else {
            return "\(answer.problem?.description ?? "the broker does not answer"); imgbroker_up is 0 until it does"
        }
        if report.isComplete { return nil }
        return "this user sees its own figures only, so most are 0: run it as a member of the broker's --stats-group"
    }
}

extension Exporter: WebApplication {
    /// Fields of every response. The page loads nothing from elsewhere, runs no script of others and cannot be framed.
    private static let fields = [
        WebAnswer.Field(
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        WebAnswer.Field("Cross-Origin-Resource-Policy", "same-origin"),
        WebAnswer.Field("X-Content-Type-Options", "nosniff"),
        WebAnswer.Field("Referrer-Policy", "no-referrer"),
        WebAnswer.Field("Cache-Control", "no-store"),
    ]

    var limits: ConnectionTable.Limits { ConnectionTable.Limits() }

    func isHealthCheck(_ request: WebRequest) -> Bool { Resource(path: request.path) == .health }

    func refuse(_ request: WebRequest) -> WebAnswer? {
        ["GET", "HEAD"].contains(request.method) ? nil : answer(request)
    }

    func answer(_ request: WebRequest, _ exchange: Exchange) -> WebAnswer { answer(request) }

    var busy: WebAnswer { Self.line(503, "The server is busy: try again, or ask for /health.") }

    func refusal(_ reason: WebRefusal) -> [UInt8]? { nil }

    private static let plainText = "text/plain; charset=utf-8"

    private static func answer(_ contentType: String, _ body: [UInt8], status: Int = 200) -> WebAnswer {
        var answer = WebAnswer(status, contentType: contentType, body)
        answer.fields += fields
        if status == 405 { answer.fields.append(WebAnswer.Field("Allow", "GET, HEAD")) }
        return answer
    }

    private static func line(_ status: Int, _ line: String) -> WebAnswer {
        answer(plainText, Array((line + "\n").utf8), status: status)
    }
}

/// What the dashboard shows, as JSON.
struct DashboardStatus {
    /// The broker's statistics; nil when it does not answer.
    var report: StatsReport?
    /// The broker's name and version.
    var server: String?
    /// Why the broker does not answer.
    var problem: String?
    /// The numbers of the thumbnails, the latest first; nil where they are disabled.
    var thumbnails: [Int]?

    var json: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("up", report != nil)
            if let server { writer.member("server", server) }
            if let problem { writer.member("problem", problem) }
            writer.member("complete", report?.isComplete ?? true)
            if let thumbnails { writer.array("thumbnails", of: thumbnails) }
            if let report { writer.object("stats") { report.writeMembers(to: &$0) } }
        }
        return writer.bytes
    }
}
