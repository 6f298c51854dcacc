import IPCProtocol
import JSONCoding

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
