private func protocolPage() throws -> String {
    try String(contentsOf: Golden.repository.appending(path: "docs/protocol.md"), encoding: .utf8)
}

/// Compares docs/protocol.md with the committed samples of all messages.
struct ProtocolPageTests {
    /// The page's text by section (`## …`), then by heading within it (`### …`).
    private func sections() throws -> [String: [String: String]] {
        let page = try protocolPage()
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

struct ErrorCodeTests {
    @Test func `the codes are those of the table on the protocol page, no more and no fewer`() throws {
        let page = try protocolPage()
        var documented: [String] = []
        var isInTable = false
        for line in page.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("| codes |") {
                isInTable = true
            } else if !line.hasPrefix("|") {
                isInTable = false
            } else if isInTable, let cell = line.split(separator: "|").first {
                documented += cell.matches(of: /`([a-z-]+)`/).map { String($0.output.1) }
            }
        }
        #expect(documented.sorted() == ErrorCode.allCases.map(\.rawValue).sorted())
    }

    @Test func codesAreRetryableWhereTheCauseMayPass() {
        let retryable: Set<ErrorCode> = [
            .shuttingDown, .overloaded, .quotaExceeded, .hostUnavailable, .dnsFailed, .connectFailed, .timeout,
            .transferFailed, .decoderUnavailable, .outOfMemory, .diskFailed, .internal,
        ]
        for code in ErrorCode.allCases where code != .httpStatus {
            #expect(WireError(code, "").isRetryable == retryable.contains(code), "\(code)")
        }
    }

    @Test func statusesAreRetryableWhereHTTPSaysSo() {
        let retryable: Set<Int> = [408, 425, 429, 500, 502, 503, 504, 507, 508, 511, 599]
        for status in [200, 204, 301, 304, 400, 401, 403, 404, 410, 418, 451, 501, 505, 600] + retryable {
            #expect(
                WireError(.httpStatus, "", httpStatus: status).isRetryable == retryable.contains(status), "\(status)")
        }
        #expect(!WireError(.httpStatus, "").isRetryable)
        // A status beside another code says nothing.
        #expect(!WireError(.tooLarge, "", httpStatus: 503).isRetryable)
    }
}
