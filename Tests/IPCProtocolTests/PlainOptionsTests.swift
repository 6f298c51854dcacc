import HTTPValues
import IPCProtocol
import Testing

/// Options as they are compared where it must be quick: none of them is left out.
struct PlainOptionsTests {
    /// Something else for each field of fixed size.
    private static let changes: [String: @Sendable (inout GetOptions) -> Void] = [
        "representation": { $0.representation = .original }, "quality": { $0.quality = 3 },
        "variant": { $0.variant.frames = .all }, "delivery": { $0.delivery = .inline }, "cache": { $0.cache = .reload },
        "staleFirst": { $0.staleFirst = true }, "storage": { $0.storage = .disk }, "priority": { $0.priority = .low },
        "retryFailed": { $0.retryFailed = true }, "progress": { $0.progress = true },
        "progressive": { $0.progressive = true }, "damaged": { $0.damaged = .accept },
        "timeoutMs": { $0.timeoutMs = 1 },
        "totalTimeoutMs": { $0.totalTimeoutMs = 1 }, "cookies": { $0.cookies = true },
        "allowInvalidCertificates": { $0.allowInvalidCertificates = true },
        "trace": { $0.trace = true }, "embedded": { $0.embedded = .fast },
    ]
    /// And for the others.
    private static let others: [String: @Sendable (inout GetOptions) -> Void] = [
        "headers": { $0.headers = [HeaderField(name: "a", value: "b")] },
        "credentials": { $0.credentials = Credentials(username: "a", password: "b") },
        "cacheKey": { $0.cacheKey = "a" }, "preset": { $0.preset = "a" }, "terms": { $0.retries = 0 },
        "metadata": { $0.metadata = [.xmp] },
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

    @Test func `each field of the variant is compared, and each flag has its own bit`() throws {
        let changes: [@Sendable (inout GetOptions) -> Void] = [
            { $0.variant.width = 64 }, { $0.variant.height = 64 }, { $0.variant.fit = .cover },
            { $0.variant.scaleDown = true }, { $0.variant.pixelFormat = .bgra8 },
            { $0.variant.pixelFormat = .rgb8 }, { $0.variant.pixelFormat = .gray8 }, { $0.variant.alpha = .straight },
            { $0.variant.frames = .one(1) }, { $0.variant.frames = .all }, { $0.variant.linear = true },
            { $0.staleFirst = true }, { $0.retryFailed = true }, { $0.progress = true }, { $0.progressive = true },
            { $0.cookies = true }, { $0.allowInvalidCertificates = true }, { $0.damaged = .accept },
            { $0.trace = true }, { $0.embedded = .fast },
        ]
        var seen = [try #require(GetOptions().plain)]
        for change in changes {
            var options = GetOptions()
            change(&options)
            let plain = try #require(options.plain)
            #expect(!seen.contains(plain))
            seen.append(plain)
        }
        var edited = GetOptions()
        edited.variant.steps = [.flip(.horizontal)]
        #expect(edited.plain == nil)
        var packed = GetOptions()
        packed.variant.background = Color(red: 1, green: 2, blue: 3)
        #expect(packed.plain == nil)
        let fields = Mirror(reflecting: GetOptions().variant).children.compactMap(\.label)
        #expect(
            Set(fields)
                == [
                    "width", "height", "fit", "scaleDown", "pixelFormat", "alpha", "background", "frames", "linear",
                    "edits",
                ])
    }

    @Test(arguments: [-1, 0, 65_536, 1 << 40]) func `numbers that no broker accepts are not plain`(number: Int) {
        var options = GetOptions()
        options.variant.width = number
        #expect(options.plain == nil)
        options = GetOptions()
        options.variant.height = number
        #expect(options.plain == nil)
        options = GetOptions()
        options.totalTimeoutMs = 1 << 40
        #expect(options.plain == nil)
    }

    @Test func noFieldIsForgotten() {
        let fields = Mirror(reflecting: GetOptions()).children.compactMap(\.label)
        #expect(Set(fields) == Set(Self.changes.keys).union(Self.others.keys))
    }
}
