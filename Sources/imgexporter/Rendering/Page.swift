/// The answer to a request over HTTP.
struct Page: Equatable {
    var status = 200
    var contentType: ContentType
    var body: [UInt8]

    /// The media types of answers.
    enum ContentType: String {
        case text = "text/plain; charset=utf-8"
        case metrics = "text/plain; version=0.0.4; charset=utf-8"
        case html = "text/html; charset=utf-8"
        case script = "text/javascript; charset=utf-8"
        case style = "text/css; charset=utf-8"
        case json = "application/json"
        case png = "image/png"
    }

    init(_ contentType: ContentType, _ body: [UInt8]) {
        self.contentType = contentType
        self.body = body
    }

    /// One line of text.
    init(_ status: Int, line: String) {
        self.init(.text, Array((line + "\n").utf8))
        self.status = status
    }
}

/// What a path names.
enum Resource: Equatable {
    case dashboard, script, style, status, metrics, health
    /// The icon that browsers ask for; empty.
    case icon
    case thumbnail(Int)

    /// The resource at a path; nil for an unknown path.
    init?(path: String) {
        switch path {
        case "/": self = .dashboard
        case "/dashboard.js": self = .script
        case "/dashboard.css": self = .style
        case "/status.json": self = .status
        case "/metrics": self = .metrics
        case "/health": self = .health
        case "/favicon.ico": self = .icon
        default:
            let prefix = "/thumbnails/"
            guard path.hasPrefix(prefix), let number = Int(path.dropFirst(prefix.count)), number >= 0 else {
                return nil
            }
            self = .thumbnail(number)
        }
    }
}
