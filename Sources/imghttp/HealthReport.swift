import JSONCoding
import WebServing

/// The answer to a check of the health.
struct HealthReport {
    /// The seconds since the start, as in Imaginary's report.
    var uptime: Int
    /// The broker's name and version.
    var server: String

    var answer: WebAnswer {
        var writer = JSONWriter()
        writer.object {
            $0.member("uptime", uptime)
            $0.member("broker", server)
        }
        var answer = WebAnswer(200, contentType: "application/json", writer.bytes)
        answer.fields.append(WebAnswer.Field("Cache-Control", "no-store"))
        return answer
    }
}
