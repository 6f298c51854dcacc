/// What a path names.
enum Resource: Equatable {
    case dashboard, script, style, status, metrics, health
    /// The icon that browsers ask for; empty.
    case icon
    case thumbnail(Int)

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
