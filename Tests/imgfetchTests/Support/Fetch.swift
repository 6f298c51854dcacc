/// The body of most tests.
let picture = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 7) }

func fetch(_ response: LocalOrigin.Response, maxBytes: Int = 1 << 24) throws -> FetchWorker.Run {
    let origin = try TestOrigin { _ in response }
    return try FetchWorker().run(origin.url("/a"), maxBytes: maxBytes)
}

extension LocalOrigin.Response {
    func adding(_ fields: KeyValuePairs<String, String>) -> Self {
        with { $0.headers += fields.map { LocalOrigin.Header($0.key, $0.value) } }
    }
}
