import Foundation
import IPCProtocol
import JSONCoding
import TestSupport
import Testing
import WebServing

@testable import imgexporter

struct MetricsTests {
    @Test func `a label's value and a help are escaped`() {
        var text = PrometheusText()
        text.begin("m", .gauge, "a \"b\" \\ c\nd")
        text.sample(["l": "a\"b\\c\nd"], 7)
        #expect(text.text == "# HELP m a \"b\" \\\\ c\\nd\n# TYPE m gauge\nm{l=\"a\\\"b\\\\c\\nd\"} 7\n")
    }

    @Test func `a histogram is cumulative, and ends with all values`() {
        var text = PrometheusText()
        text.begin("m", .histogram, "h")
        text.histogram(["r": "x"], bounds: ["1", "2", "4"], counts: [1, 0, 2, 5], total: 8, sum: "9.5")
        #expect(
            text.text == """
                # HELP m h
                # TYPE m histogram
                m_bucket{r="x",le="1"} 1
                m_bucket{r="x",le="2"} 1
                m_bucket{r="x",le="4"} 3
                m_bucket{r="x",le="+Inf"} 8
                m_sum{r="x"} 9.5
                m_count{r="x"} 8

                """)
    }

    @Test(arguments: [(0, "0"), (1, "0.000001"), (1024, "0.001024"), (1_500_000, "1.5"), (1 << 26, "67.108864")])
    func `seconds are exact`(microseconds: Int, text: String) {
        #expect(Metrics.seconds(microseconds) == text)
    }

    @Test func `without a broker there is only imgbroker_up`() {
        let text = Metrics.text(of: nil, server: nil)
        #expect(text == "# HELP imgbroker_up Whether the broker answers.\n# TYPE imgbroker_up gauge\nimgbroker_up 0\n")
    }

    @Test func `servers of the shared tier are numbered`() {
        var report = StatsReport()
        var servers = [StatsReport.SharedServer(), StatsReport.SharedServer()]
        (servers[0].name, servers[0].state, servers[0].share, servers[0].hits) = ("secret", "up", 510, 7)
        (servers[1].state, servers[1].rejected) = ("ejected", 2)
        report.sharedServers = servers
        let text = Metrics.text(of: report, server: nil)
        for line in [
            "imgbroker_shared_server_up{server=\"1\"} 1", "imgbroker_shared_server_up{server=\"2\"} 0",
            "imgbroker_shared_server_share{server=\"1\"} 510",
            "imgbroker_shared_lookups_total{server=\"1\",result=\"hit\"} 7",
            "imgbroker_shared_lookups_total{server=\"2\",result=\"rejected\"} 2",
        ] {
            #expect(text.contains(line + "\n"), "\(line)")
        }
        #expect(!text.contains("secret"))
    }

    @Test func `requests of programs are counted by result, also before the first`() {
        var report = StatsReport()
        var http = StatsReport.ProgramRequests()
        (http[.fileLoads], http[.failed]) = (4, 1)
        (http.durations.count, http.durations.sumMicroseconds, http.durations.buckets) = (5, 9_000_000, [0, 2, 3])
        report.programs = [.http: http]
        let text = Metrics.text(of: report, server: nil)
        for line in [
            "imgbroker_program_requests_total{program=\"imgbroker-http\",result=\"file\"} 4",
            "imgbroker_program_requests_total{program=\"imgbroker-http\",result=\"failed\"} 1",
            "imgbroker_program_requests_total{program=\"imgbroker-thumbnailer\",result=\"failed\"} 0",
            "imgbroker_program_request_seconds_bucket{program=\"imgbroker-http\",le=\"0.000002\"} 2",
            "imgbroker_program_request_seconds_count{program=\"imgbroker-http\"} 5",
            "imgbroker_program_request_seconds_sum{program=\"imgbroker-http\"} 9",
            "imgbroker_program_request_seconds_count{program=\"imgbroker-thumbnailer\"} 0",
        ] {
            #expect(text.contains(line + "\n"), "\(line)")
        }
    }

    @Test func `no label has a host or a user, whatever the tables have`() {
        var report = StatsReport()
        var host = StatsReport.Host()
        host.origin = "https://secret.example"
        report.hosts = [host]
        var user = StatsReport.User()
        user.uid = 48_151_623
        report.users = [user]
        let text = Metrics.text(of: report, server: "imgbroker/1")
        #expect(!text.contains("secret"))
        #expect(!text.contains("48151623"))
    }

    @Test func `each metric is begun once, and each sample has its name`() {
        var names: Set<Substring> = []
        var current: Substring = ""
        for line in Metrics.text(of: StatsReport(), server: "s").split(separator: "\n") {
            if line.hasPrefix("# TYPE ") {
                current = line.split(separator: " ")[2]
                #expect(names.insert(current).inserted)
            } else if !line.hasPrefix("#") {
                #expect(line.hasPrefix(current), "\(line)")
            }
        }
        #expect(names.count > 40)
    }

    @Test func `the page of operations has each metric`() throws {
        let page = try String(contentsOfFile: BuiltProducts.package + "/docs/operations.md", encoding: .utf8)
        // "imgbroker_cache_{hits,misses}_total" stands for two names.
        var described: Set<String> = []
        for match in page.matches(of: #/`(imgbroker_[a-z_]*)(?:\{([a-z_,]+)\}([a-z_]*))?`/#) {
            for part in (match.2 ?? "").split(separator: ",", omittingEmptySubsequences: false) {
                described.insert("\(match.1)\(part)\(match.3 ?? "")")
            }
        }
        var report = StatsReport()
        report.sharedServers = [StatsReport.SharedServer()]
        for line in Metrics.text(of: report, server: "s").split(separator: "\n") where line.hasPrefix("# TYPE ") {
            let name = String(line.split(separator: " ")[2])
            #expect(described.contains(name), "\(name)")
        }
    }

    @Test func `all figures of the broker are in the metrics`() {
        // Those that follow from others, or are not numbers of their own.
        let omitted: Set<StatsReport.Figure> = [.running]
        for (index, figure) in StatsReport.Figure.allCases.enumerated() where !omitted.contains(figure) {
            var report = StatsReport()
            report[figure] = 4_000_000 + index
            #expect(Metrics.text(of: report, server: nil).contains(" \(4_000_000 + index)\n"), "\(figure)")
        }
    }
}

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
        "127.0.0.1:80@x", "1.2.3", "1.2.3.999", "[", "[]", "[::1", "[::1]x", "[evil.example]", "127.0.0.1:x",
        "metrics.lan.", "+1.2.3.4", "1.2.3.-4", "127.0.0.01", "127.0.0.1:99999", "127.0.0.1:+80", "[:::]", "[1::2::3]",
        "[127.0.0.1]", "[12345::]", "::1",
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
