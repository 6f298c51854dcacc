import CodingTestSupport
import Foundation
import IPCProtocol
import Testing

/// Compares docs/protocol.md with the committed samples of all messages.
struct ProtocolPageTests {
    /// The page's text by section (`## …`), then by heading within it (`### …`).
    private func sections() throws -> [String: [String: String]] {
        let page = try String(contentsOf: Golden.repository.appending(path: "docs/protocol.md"), encoding: .utf8)
        var sections: [String: [String: String]] = [:]
        for section in page.split(separator: "\n## ").dropFirst() {
            let parts = section.split(separator: "\n### ").map(String.init)
            for part in parts.dropFirst() {
                let heading = String(part.prefix { $0 != "\n" })
                sections[String(parts[0].prefix { $0 != "\n" }), default: [:]][heading] = part
            }
        }
        return sections
    }

    /// The samples' members by message type, those of nested objects included.
    private func members(ofSamples prefix: String) throws -> [String: Set<String>] {
        func names(_ value: Any) -> Set<String> {
            if let list = value as? [Any] { return list.reduce(into: []) { $0.formUnion(names($1)) } }
            guard let object = value as? [String: Any] else { return [] }
            return object.reduce(into: []) { $0.formUnion(names($1.value).union([$1.key])) }
        }
        var members: [String: Set<String>] = [:]
        let samples = Golden(of: "IPCProtocolTests")
        for name in try samples.names() where name.hasPrefix(prefix) {
            let data = try Data(contentsOf: samples.directory.appending(path: name + ".json"))
            let message = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
            members[try #require(message["type"] as? String), default: []].formUnion(names(message))
        }
        return members
    }

    @Test(arguments: [("client-", "Requests"), ("reply-", "Replies")])
    func everyMessageHasAHeadingAndItsFields(prefix: String, section: String) throws {
        let headings = try #require(try sections()[section])
        let members = try members(ofSamples: prefix)
        #expect(Set(members.keys.map { "`\($0)`" }) == Set(headings.keys))
        // These are described for all messages, or are names of request headers and error codes.
        let general: Set<String> = ["type", "id", "fds", "payload", "accept-language", "referer"]
        let shared = (headings["`get`"] ?? "") + (headings["`stats`"] ?? "")
        for (type, names) in members {
            let text = try #require(headings["`\(type)`"]) + shared
            for name in names.subtracting(general).subtracting(ErrorCode.allCases.map(\.rawValue)) {
                #expect(text.contains("`\(name)`") || text.contains("\"\(name)\""), "\(type): \(name)")
            }
        }
    }

    @Test func everyEventAndCauseIsDescribed() throws {
        let replies = try #require(try sections()["Replies"])
        for event in BrokerEvent.Name.allCases {
            #expect(replies["`event`"]?.contains("\n| `\(event.rawValue)` |") == true)
        }
        for cause in DeathCause.allCases { #expect(replies["`stats`"]?.contains("\n| `\(cause.rawValue)` |") == true) }
    }
}
