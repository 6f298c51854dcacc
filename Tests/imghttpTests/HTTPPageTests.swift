import Foundation
import TestSupport
import Testing

@testable import imghttp

/// Executes the tables of docs/http.md.
struct HTTPPageTests {
    @Test func `each row says what is supported`() throws {
        let page = try String(contentsOfFile: BuiltProducts.package + "/docs/http.md", encoding: .utf8)
        var count = 0
        for line in page.split(separator: "\n") {
            guard let row = line.firstMatch(of: /^\| `(.+?)` \| (yes|no) \|/) else { continue }
            count += 1
            let example = String(row.1)
            var problem: HTTPProblem?
            do throws(HTTPProblem) {
                if example.hasPrefix("{") {
                    _ = try ImaginaryPipeline(target: ImaginaryTests.target("[\(example)]"))
                } else {
                    _ = try ImgproxyRequest(target: "/unsafe/\(example)/plain/http://example.com/a.jpg")
                }
            } catch { problem = error }
            if row.2 == "yes" {
                #expect(problem == nil, "\(example): \(problem?.message ?? "")")
            } else {
                #expect(problem?.status == 400, "\(example)")
                #expect(problem?.message.contains(/support|must be/) == true, "\(example): \(problem?.message ?? "")")
            }
        }
        #expect(count > 55)
    }
}
