import IPCProtocol
import LinuxSystem
import Testing

@testable import imgbroker

/// Flags: what they mean, and one clear line for those that mean nothing.
struct CommandLineTests {
    private func read(_ words: String...) throws -> Configuration {
        guard case .serve(let configuration) = try Configuration.read(words) else {
            throw UsageError(description: "no configuration")
        }
        return configuration
    }

    @Test func `the flags of the broker`() throws {
        let configuration = try read(
            "--workers", "3", "--fetchers=2", "--socket", "/x/y.sock", "--memory-limit", "1G", "--max-download=4M",
            "--max-pixels", "20M", "--allow-address", "127.0.0.0/8", "--allow-address", "::1", "--user", "www-data",
            "--log-level", "debug", "--cache-dir", "/var/cache/x", "--disk-limit", "8G")
        #expect(configuration.limits.workers == 3)
        #expect(configuration.limits.fetchers == 2)
        #expect(configuration.socketPath == "/x/y.sock")
        #expect(configuration.limits.memoryBytes == 1 << 30)
        #expect(configuration.limits.maxDownloadBytes == 4 << 20)
        #expect(configuration.limits.maxPixels == 20_000_000)
        #expect(configuration.allowedAddresses.map(\.description) == ["127.0.0.0/8", "::1/128"])
        #expect(configuration.user == "www-data")
        #expect(configuration.logLevel == .debug)
    }

    @Test func `defaults`() throws {
        let configuration = try read()
        #expect(configuration.limits.workers >= 1)
        #expect(configuration.limits.fetchers == 1)
        #expect(configuration.limits.memoryBytes == 512 << 20)
        #expect(configuration.limits.maxDownloadBytes == 32 << 20)
        #expect(configuration.limits.maxPixels == 50_000_000)
        #expect(configuration.allowedAddresses.isEmpty)
    }

    @Test(arguments: [
        ["--workers"], ["--workers", "0"], ["--workers", "many"], ["--memory-limit", "0"], ["--memory-limit", "5T"],
        ["--memory-limit", "9223372036854775807G"], ["--allow-address", "10.0.0.0/33"], ["--log-level", "loud"],
        ["--frobnicate"], ["serve"], ["--help=yes", "--workers", "1"], ["--max-pixels", "-5"],
    ])
    func `a wrong flag is one line that names it`(words: [String]) throws {
        let error = #expect(throws: UsageError.self) {
            if case .serve = try Configuration.read(words) {} else { throw UsageError(description: words[0]) }
        }
        #expect(error?.description.contains("\n") == false)
        #expect(error?.description.contains(words[0].prefix { $0 != "=" }) == true)
    }

    @Test func `help and version`() throws {
        for words in [["--help"], ["-h"], ["--workers", "2", "--help"]] {
            guard case .help = try Configuration.read(words) else {
                complain("no help")
                continue
            }
        }
        guard case .version = try Configuration.read(["--version"]) else { return complain("no version") }
    }

    @Test func `sizes for people`() {
        #expect(ByteCount(0).description == "0 B")
        #expect(ByteCount(1023).description == "1023 B")
        #expect(ByteCount(1434).description == "1.4 KiB")
        #expect(ByteCount(512 << 20).description == "512 MiB")
        #expect(ByteCount(1023 << 20).description == "1.0 GiB")
        #expect(ByteCount("64k")?.value == 65536)
        #expect(ByteCount("7")?.value == 7)
        #expect(ByteCount("K") == nil)
        #expect(ByteCount("-1") == nil)
    }

    @Test func `the table has a line for every outcome and error`() {
        var report = StatsReport()
        report[.requests] = 10
        for outcome in StatsReport.Figure.outcomes { report[outcome] = 1 }
        report.failures[.decodeFailed] = 3
        let text = StatsTable.text(of: report, path: "/run/imgbroker.sock")
        for word in ["from memory", "from disk", "joined", "downloaded", "failed", "cancelled", "decode-failed", "p99"]
        {
            #expect(text.contains(word))
        }
    }
}
