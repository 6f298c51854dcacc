import IPCProtocol
import JSONCoding
import Testing
import WebServing

@testable import imgexporter

/// Requests over HTTP, without a server.
struct RequestTests {
    @Test(arguments: [
        "localhost", "LOCALHOST:9464", "127.0.0.1", "127.0.0.1:9464", "192.168.1.20:80", "[::1]:9464", "[fe80::1]",
        "metrics.lan:9464", "Metrics.LAN",
    ])
    func `numeric addresses, localhost and allowed names are accepted`(host: String) {
        #expect(HostGuard(allowing: ["metrics.lan"]).accepts(host))
    }

    @Test(arguments: [
        nil, "", "evil.example", "evil.example:9464", "localhost.evil.example", "127.0.0.1.evil.example",
        "127.0.0.1:80@x",
        "1.2.3", "1.2.3.999", "[", "[]", "[::1", "[::1]x", "[evil.example]", "127.0.0.1:x", "metrics.lan.",
        "+1.2.3.4", "1.2.3.-4", "127.0.0.01", "127.0.0.1:99999", "127.0.0.1:+80", "[:::]", "[1::2::3]", "[127.0.0.1]",
        "[12345::]",
        "::1",
    ])
    func `other names are refused`(host: String?) {
        #expect(!HostGuard(allowing: ["metrics.lan"]).accepts(host))
    }

    @Test(arguments: [
        ("/", Resource.dashboard), ("/metrics", .metrics), ("/thumbnails/12", .thumbnail(12)), ("/thumbnails/-1", nil),
        ("/thumbnails/", nil), ("/../etc/passwd", nil), ("", nil), ("/thumbnails/99999999999999999999", nil),
    ])
    func `a path names a resource, or none`(path: String, resource: Resource?) {
        #expect(Resource(path: path) == resource)
    }

    @Test func `requests that a page of another site could cause are refused before the broker is asked`() {
        let exporter = Exporter(path: "/nowhere/s", hosts: HostGuard(allowing: []), thumbnails: nil)
        #expect(exporter.answer(WebRequest(method: "GET", path: "/metrics", host: "evil.example")).status == 421)
        #expect(exporter.answer(WebRequest(method: "POST", path: "/metrics", host: "localhost")).status == 405)
        #expect(exporter.answer(WebRequest(method: "GET", path: "/x", host: "localhost")).status == 404)
        #expect(exporter.answer(WebRequest(method: "GET", path: "/thumbnails/0", host: "localhost")).status == 404)
    }

    @Test func `a request with several names is no request`() {
        let exporter = Exporter(path: "/nowhere/s", hosts: HostGuard(allowing: []), thumbnails: nil)
        for host in ["localhost", "evil.example"] {
            var request = WebRequest(method: "GET", path: "/health", host: host)
            request.hostFields = 2
            #expect(exporter.answer(request).status == 400)
        }
    }

    @Test func `without a broker the metrics say so, and the health check fails with a reason`() {
        let exporter = Exporter(path: "/nowhere/s", hosts: HostGuard(allowing: []), thumbnails: nil)
        let metrics = exporter.answer(WebRequest(method: "GET", path: "/metrics", host: "localhost"))
        #expect(metrics.status == 200)
        #expect(String(decoding: metrics.body, as: UTF8.self).hasSuffix("\nimgbroker_up 0\n"))
        let health = exporter.answer(WebRequest(method: "GET", path: "/health", host: "localhost"))
        #expect(health.status == 503)
        let line = String(decoding: health.body, as: UTF8.self)
        #expect(line.hasPrefix("no broker answers at /nowhere/s"))
        #expect(line.split(separator: "\n").count == 1)
    }

    @Test func `the status has the statistics as the broker wrote them`() {
        var report = StatsReport()
        report[.requests] = 41
        let status = DashboardStatus(report: report, server: "imgbroker/1", problem: nil, thumbnails: [2, 1])
        let text = String(decoding: status.json, as: UTF8.self)
        var stats = JSONWriter()
        stats.object { report.writeMembers(to: &$0) }
        #expect(
            text == #"{"up":true,"server":"imgbroker/1","complete":false,"thumbnails":[2,1],"stats":"#
                + String(decoding: stats.bytes, as: UTF8.self) + "}")
    }

    @Test func `the probe is a PNG file of its colour`() {
        let image = ProbeImage(red: 1, green: 2, blue: 3)
        #expect(image.pixels.count == 4 * 4 * 4)
        #expect(image.pixels.starts(with: [1, 2, 3, 255, 1]))
        #expect(image.png.starts(with: [0x89, 0x50, 0x4E, 0x47]))
    }
}
