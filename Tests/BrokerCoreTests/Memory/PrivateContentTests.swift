import HTTPValues
import IPCProtocol
import Testing

@testable import BrokerCore

/// What is made of a private original is its owner's: nothing shows another user who has the same bytes that it exists.
struct PrivateContentTests {
    private var world: StrictWorld
    private let owner: ClientID
    private let stranger: ClientID

    init() {
        world = StrictWorld()
        owner = world.connect(uid: 1000)
        stranger = world.connect(uid: 1001)
        world.readyAll()
    }

    /// Loads content 1 under a URL, with the user's rights if `isPrivate`; returns whether it was decoded.
    private func load(_ client: ClientID, id: Int, _ path: String, isPrivate: Bool) throws -> Bool {
        world.get(client, id: id, path) {
            if isPrivate { $0.headers = [HeaderField(name: "authorization", value: "Bearer x")] }
        }
        try world.finishFetch(content: 1)
        let jobs = Array(world.decodes.keys)
        for job in jobs { world.decode(job) }
        #expect(world.image(client, id)?.source == .network)
        return !jobs.isEmpty
    }

    @Test(arguments: [true, false])
    func `equal bytes of another user are decoded again`(isPrivate: Bool) throws {
        #expect(try load(owner, id: 1, "secret", isPrivate: true))
        #expect(try load(stranger, id: 2, "guess", isPrivate: isPrivate))
        // The owner's own results are shared among the owner's requests.
        #expect(try !load(owner, id: 3, "copy", isPrivate: true))
    }

    @Test func `equal bytes that are public are decoded once`() throws {
        #expect(try load(owner, id: 1, "a", isPrivate: false))
        #expect(try !load(stranger, id: 2, "b", isPrivate: false))
    }

    @Test func `rasters of private originals have names of their own on disk`() throws {
        let form = Form.pixels(Transform(width: 64))
        let words = [form.rasterWord(of: nil), form.rasterWord(of: 1000), form.rasterWord(of: 1001)]
        #expect(Set(words).count == 3 && !words.contains(nil))
    }
}
