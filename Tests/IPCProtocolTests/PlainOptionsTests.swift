import HTTPValues
import IPCProtocol
import Testing

/// Options as they are compared where it must be quick: none of them is left out.
@Suite struct PlainOptionsTests {
    /// Something else for each field of fixed size.
    private static let changes: [String: @Sendable (inout GetOptions) -> Void] = [
        "representation": { $0.representation = .original }, "quality": { $0.quality = 3 },
        "variant": { $0.variant.frames = .all }, "delivery": { $0.delivery = .inline }, "cache": { $0.cache = .reload },
        "staleFirst": { $0.staleFirst = true }, "storage": { $0.storage = .disk }, "priority": { $0.priority = .low },
        "retryFailed": { $0.retryFailed = true }, "progress": { $0.progress = true },
        "progressive": { $0.progressive = true }, "timeoutMs": { $0.timeoutMs = 1 },
        "totalTimeoutMs": { $0.totalTimeoutMs = 1 }, "cookies": { $0.cookies = true },
        "allowInvalidCertificates": { $0.allowInvalidCertificates = true },
    ]
    /// And for the others.
    private static let others: [String: @Sendable (inout GetOptions) -> Void] = [
        "headers": { $0.headers = [HeaderField(name: "a", value: "b")] },
        "credentials": { $0.credentials = Credentials(username: "a", password: "b") },
        "cacheKey": { $0.cacheKey = "a" },
    ]

    @Test func eachFieldIsCompared() throws {
        let usual = try #require(GetOptions().plain)
        #expect(usual == GetOptions().plain)
        for (name, change) in Self.changes {
            var options = GetOptions()
            change(&options)
            #expect(options.plain != nil)
            #expect(options.plain != usual, "\(name)")
        }
        for (name, change) in Self.others {
            var options = GetOptions()
            change(&options)
            #expect(options.plain == nil, "\(name)")
        }
    }

    @Test func noFieldIsForgotten() {
        let fields = Mirror(reflecting: GetOptions()).children.compactMap(\.label)
        #expect(Set(fields) == Set(Self.changes.keys).union(Self.others.keys))
    }
}
