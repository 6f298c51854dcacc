import Foundation
import HTTPValues
import Testing

/// The cases that the clients in C and Python have, too.
struct DataURLTests {
    private struct Case: Decodable {
        let url: String
        let bytes: String?
    }

    @Test func `the bytes of data URLs`() throws {
        let package = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let file = package.appending(path: "clients/conformance/data-urls.json")
        let cases = try JSONDecoder().decode([Case].self, from: Data(contentsOf: file))
        #expect(cases.count == 21)
        for each in cases {
            #expect(DataURL.isSpelled(each.url))
            let bytes = try? DataURL.bytes(of: each.url)
            #expect(bytes == each.bytes.map { Array($0.utf8) }, "\(each.url)")
        }
        for url in ["data", "http://data:80/", "dat a:,", ""] { #expect(!DataURL.isSpelled(url)) }
    }
}
