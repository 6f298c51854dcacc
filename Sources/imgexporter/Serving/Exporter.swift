internal import CDashboard
import IPCProtocol
import ImageBrokerClient
import WebServing

/// Answers requests over HTTP from what the broker says. Its methods are called on the threads of the server's connections.
final class Exporter: Sendable {
    private let figures: BrokerFigures
    private let health: HealthCheck
    private let thumbnails: Thumbnails?
    private let hosts: HostGuard

    /// Creates an exporter for the broker at `path`.
    init(path: String, hosts: HostGuard, thumbnails: Thumbnails?) {
        figures = BrokerFigures(path: path)
        health = HealthCheck(path: path)
        self.hosts = hosts
        self.thumbnails = thumbnails
    }

    /// The answer to a request with a number of Host fields.
    func answer(method: String, path: String, host: String?, hostFields: Int = 1) -> Page {
        // RFC 9112, section 3.2.
        if hostFields > 1 { return Page(400, line: "The request has several Host fields.") }
        guard hosts.accepts(host) else {
            return Page(
                421, line: "This server does not have that name: start imgbroker exporter with --allow-host NAME.")
        }
        guard method == "GET" || method == "HEAD" else { return Page(405, line: "Only GET and HEAD are supported.") }
        switch Resource(path: path) {
        case .dashboard: return Page(.html, unsafe Self.bytes(of: cdashboard_html()))
        case .script: return Page(.script, unsafe Self.bytes(of: cdashboard_script()))
        case .style: return Page(.style, unsafe Self.bytes(of: cdashboard_style()))
        case .metrics:
            let answer = figures.read()
            return Page(.metrics, Array(Metrics.text(of: answer.report, server: answer.server).utf8))
        case .status:
            let answer = figures.read()
            let status = DashboardStatus(
                report: answer.report, server: answer.server, problem: answer.problem?.description,
                thumbnails: thumbnails?.update())
            return Page(.json, status.json)
        case .health:
            if let problem = health.problem() { return Page(503, line: problem) }
            return Page(200, line: "ok")
        case .icon: return Page(.text, [])
        case .thumbnail(let number):
            guard let png = thumbnails?.png(number) else { return Page(404, line: "There is no such thumbnail.") }
            return Page(.png, png)
        case nil: return Page(404, line: "There is no such page: there are /, /metrics and /health.")
        }
    }

    private static func bytes(of file: cdashboard_file) -> [UInt8] {
        unsafe Array(UnsafeBufferPointer(start: file.bytes, count: file.length))
    }

    /// Whether the broker answers now, and shows all figures; a message if not.
    var warning: String? {
        let answer = figures.read()
        guard let report = answer.report else {
            return "\(answer.problem?.description ?? "the broker does not answer"); imgbroker_up is 0 until it does"
        }
        if report.isComplete { return nil }
        return
            "this user sees its own figures only, so most are 0: run it as a member of the broker's --stats-group"
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

    private func answer(_ request: WebRequest) -> WebAnswer {
        Self.answer(
            answer(method: request.method, path: request.path, host: request.host, hostFields: request.hostFields))
    }

    var busy: WebAnswer { Self.answer(Page(503, line: "The server is busy: try again, or ask for /health.")) }

    func refusal(_ reason: WebRefusal) -> [UInt8]? { nil }

    private static func answer(_ page: Page) -> WebAnswer {
        var answer = WebAnswer(page.status, contentType: page.contentType.rawValue, page.body)
        answer.fields += fields
        if page.status == 405 { answer.fields.append(WebAnswer.Field("Allow", "GET, HEAD")) }
        return answer
    }
}
