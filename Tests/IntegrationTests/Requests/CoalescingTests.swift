/// Concurrent requests for one image share a download and a decoding.
@Suite(.blocking, .timeLimit(.minutes(10))) struct CoalescingTests {
    private let picture = TestPicture.gradient(width: 40, height: 30, transparent: true)

    @Test func manyGetsOfThreeVariants() throws {
        let file = picture.png
        let setting = try Setting { _ in .ok(file).with { $0.hold = .afterBytes(100) } }
        let url = setting.url("/slow.png")
        let variants: [(String, TestPicture)] = [
            ("", picture.premultiplied),
            (#""variant":{"pixelFormat":"bgra8"}"#, picture.premultiplied.bgra),
            (#""variant":{"alpha":"straight"}"#, picture),
        ]
        let clients = try (0..<50).map { _ in try setting.client() }
        var asked: [(client: RawClient, id: Int, variant: Int)] = []
        for index in 0..<200 {
            let client = clients[index % 50]
            asked.append((client, try client.get(url, variants[index % 3].0), index % 3))
        }
        try setting.broker.wait(for: "200 requests") { $0[.requests] == 200 }
        #expect(try setting.broker.stats().ended == 0)
        setting.origin.gate("/slow.png").open()
        var buffers: Set<Int> = []
        for (client, id, variant) in asked {
            let incoming = try client.answer(to: id)
            #expect(try client.picture(incoming) == variants[variant].1)
            buffers.insert(try #require(try incoming.image().buffer))
        }
        #expect(buffers.count == 3)
        #expect(setting.origin.requests.count == 1)
        let report = try setting.broker.stats()
        #expect(report[.decodes, .downloads] == [3, 1])
        #expect(report[.networkLoads] + report[.coalesced] == 200)
        #expect(report[.networkLoads, .memoryEntries] == [1, 4])
    }
}
