import Foundation
import TestSupport
import Testing

@testable import Sandbox

/// docs/security.md shows the tables as they are. With IMGBROKER_UPDATE_DOCS=1 it is brought up to date instead.
@Suite struct SecurityPageTests {
    private static let page = BuiltProducts.package + "/docs/security.md"

    /// The calls of a policy by what becomes of them; an asterisk marks those that are looked at more closely.
    private func table(_ rules: [SystemCallRule]) -> String {
        func names(_ isMeant: (SystemCallRule.Action) -> Bool) -> String {
            let meant = rules.filter { isMeant($0.action) }
            let texts = meant.map { "`\($0.name)\($0.checks.isEmpty ? "" : "*")`" }
            return Set(texts).sorted().joined(separator: " ")
        }
        let failing = names {
            if case .fail = $0 { true } else { false }
        }
        return """
            | what becomes of it | system calls |
            |---|---|
            | allowed | \(names { $0 == .allow }) |
            | ends the process | \(names { $0 == .kill }) |
            | fails with an error of its own | \(failing.isEmpty ? "–" : failing) |
            | fails with `ENOSYS` | all others |
            """
    }

    @Test func tablesAreThoseInForce() throws {
        var text = try String(contentsOfFile: Self.page, encoding: .utf8)
        for (name, rules) in [
            ("imgworker", SystemCallRule.decode(pid: 1)), ("imgfetch", SystemCallRule.fetch(pid: 1)),
            ("imgcache", SystemCallRule.cache(pid: 1)),
        ] {
            let marks = ("<!-- calls of \(name) -->\n", "\n<!-- end -->")
            let start = try #require(text.range(of: marks.0)?.upperBound)
            let end = try #require(text.range(of: marks.1, range: start..<text.endIndex)?.lowerBound)
            if ProcessInfo.processInfo.environment["IMGBROKER_UPDATE_DOCS"] == "1" {
                text.replaceSubrange(start..<end, with: table(rules))
                try text.write(toFile: Self.page, atomically: true, encoding: .utf8)
            } else {
                #expect(text[start..<end] == table(rules), "\(name)")
            }
        }
    }

    /// Every test that the page names exists.
    @Test func testsAreThere() throws {
        let text = try String(contentsOfFile: Self.page, encoding: .utf8)
        var sources: [String: String] = [:]
        let tests = BuiltProducts.package + "/Tests"
        for case let path as String in FileManager.default.enumerator(atPath: tests) ?? .init()
        where path.hasSuffix(".swift") {
            let source = try String(contentsOfFile: "\(tests)/\(path)", encoding: .utf8)
            for suite in source.matches(of: /(?:struct|class|extension) (\w+Tests)\b/) {
                sources[String(suite.1), default: ""] += source
            }
        }
        var (suite, count) = ("", 0)
        for name in text.matches(of: /`(\w+Tests)?(?:\.(\w+))?`/) where name.1 != nil || name.2 != nil {
            if let given = name.1 { suite = String(given) }
            if suite == "imgcacheTests" || suite == "imgfetchTests" || suite.isEmpty { continue }
            let source = try #require(sources[suite], "\(suite)")
            if let function = name.2 { #expect(source.contains("func \(function)("), "\(suite).\(function)") }
            count += 1
        }
        #expect(count > 40)
    }
}
