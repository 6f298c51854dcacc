import Foundation
import TestSupport
import Testing

@testable import Sandbox

/// Compares the lists of system calls in docs/security.md with the filters in force.
///
/// With IMGBROKER_UPDATE_DOCS=1 the lists are written instead.
struct SecurityPageTests {
    private static let page = BuiltProducts.package + "/docs/security.md"

    /// Returns the calls of a policy by their outcome; an asterisk marks calls whose arguments are checked.
    private func list(_ rules: [SystemCallRule]) -> String {
        func names(_ isIncluded: (SystemCallRule.Action) -> Bool) -> String {
            let included = rules.filter { isIncluded($0.action) }
            let texts = included.map { "`\($0.name)\($0.checks.isEmpty ? "" : "*")`" }
            return Set(texts).sorted().joined(separator: " ")
        }
        let failing = names {
            if case .fail = $0 { true } else { false }
        }
        return """
            - **Allowed:** \(names { $0 == .allow })
            - **Kill the process:** \(names { $0 == .kill })
            - **Fail with another error:** \(failing.isEmpty ? "–" : failing)
            - **Fail with `ENOSYS`:** all others
            """
    }

    @Test func listsAreThoseInForce() throws {
        var text = try String(contentsOfFile: Self.page, encoding: .utf8)
        for (name, rules) in [
            ("imgworker", SystemCallRule.decode(pid: 1)), ("imgworker-svg", SystemCallRule.svg(pid: 1)),
            ("imgfetch", SystemCallRule.fetch(pid: 1)), ("imgcache", SystemCallRule.cache(pid: 1)),
            ("imgtier", SystemCallRule.tier(pid: 1)), ("imghttp", SystemCallRule.http(pid: 1)),
            ("close-descriptors", SystemCallRule.descriptors(pid: 1)),
            ("receive-descriptors", SystemCallRule.files(pid: 1)),
        ] {
            let marks = ("<!-- calls of \(name) -->\n", "\n<!-- end -->")
            let start = try #require(text.range(of: marks.0)?.upperBound)
            let end = try #require(text.range(of: marks.1, range: start..<text.endIndex)?.lowerBound)
            if ProcessInfo.processInfo.environment["IMGBROKER_UPDATE_DOCS"] == "1" {
                text.replaceSubrange(start..<end, with: list(rules))
                try text.write(toFile: Self.page, atomically: true, encoding: .utf8)
            } else {
                #expect(text[start..<end] == list(rules), "\(name)")
            }
        }
    }

    /// Every test that the page names exists.
    @Test func testsExist() throws {
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
