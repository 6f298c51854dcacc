import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Variants that the configuration names.
struct PresetTests {
    private static func variant(_ width: Int) -> GetOptions.Variant {
        var variant = GetOptions.Variant()
        variant.width = width
        return variant
    }

    private func world(presetsOnly: Bool = false) -> StrictWorld {
        return .ready {
            $0.presets = ["small": Self.variant(5), "little": Self.variant(5), "large": Self.variant(9)]
            $0.allowsPresetsOnly = presetsOnly
        }
    }

    @Test func `a preset shares its result with equal presets and equal requests`() throws {
        let (world, client) = world().connected()
        world.get(client, id: 1, "a") { $0.preset = "small" }
        world.settle()
        let first = try #require(world.image(client, 1))
        #expect(first.width == 5)
        world.get(client, id: 2, "a") { $0.preset = "little" }
        world.get(client, id: 3, "a") { $0.variant.width = 5 }
        for id in 2...3 { #expect(world.image(client, id)?.buffer == first.buffer) }
        world.get(client, id: 4, "a") { $0.preset = "large" }
        world.settle()
        #expect(world.image(client, 4)?.width == 9 && world.state.report[.decodes] == 2)
    }

    @Test func `an unknown name is refused, and counts as a failure`() {
        let (world, client) = world().connected()
        #expect(world.getError(client, id: 1, "a") { $0.preset = "huge" } == .badRequest)
        #expect(world.fetches.isEmpty)
        let file = FileID(number: 1)
        world.getFile(client, id: 2, file) { $0.preset = "huge" }
        #expect(world.error(client, 2) == .badRequest && world.files.isEmpty)
        #expect(world.state.report[.failed] == 2)
    }

    @Test func `with only-presets, other variants are for administrators`() throws {
        let world = world(presetsOnly: true)
        let (client, admin) = (world.connect(uid: 1000), world.connect(uid: 1000, isAdmin: true))
        #expect(world.getError(client, id: 1, "a") == .forbidden)
        #expect(world.getError(client, id: 2, "a") { $0.representation = .original } == .forbidden)
        for id in 1...4 {
            world.get(admin, id: id, "a")
            world.settle()
            #expect(world.image(admin, id)?.width == 10)
        }
        // Nor by the text of the administrator's request.
        #expect(world.getError(client, id: 3, "a") == .forbidden)
        world.get(client, id: 4, "a") { $0.preset = "small" }
        world.settle()
        #expect(world.image(client, 4)?.width == 5)

        func refusal(of message: ClientMessage) -> ErrorCode? {
            world.happen(.messageReceived(client, message))
            for case .reply(_, .error(_, let error), _) in world.lastActions { return error.code }
            return nil
        }
        let url = try SourceURL("http://origin.test/a")
        #expect(refusal(of: .query(GetRequest(id: 5, url: url))) == .forbidden)
        #expect(refusal(of: .prefetch(PrefetchRequest(id: 6, urls: [url]))) == .forbidden)
        var options = PrefetchRequest.defaultOptions
        options.preset = "small"
        #expect(refusal(of: .query(GetRequest(id: 7, url: url, options: options))) == nil)
        #expect(refusal(of: .prefetch(PrefetchRequest(id: 8, urls: [url], options: options))) == nil)
    }

    @Test func `a preset that has changed has another result, however often it was requested`() {
        let world = world()
        let (client, admin) = (world.connect(), world.connect(isAdmin: true))
        world.greet(client)
        for id in 1...4 {
            world.get(client, id: id, "a") { $0.preset = "small" }
            world.settle()
            #expect(world.image(client, id)?.width == 5)
        }
        world.newLimits = world.state.limits
        world.newLimits?.presets = ["small": Self.variant(7)]
        world.happen(.messageReceived(admin, .reload(id: 1)))
        world.readyAll()
        #expect(!world.words.isEmpty)
        #expect(world.words.values.allSatisfy { $0.expiry == 0 })
        world.get(client, id: 5, "a") { $0.preset = "small" }
        world.settle()
        #expect(world.image(client, 5)?.width == 7)
        #expect(world.getError(client, id: 6, "a") { $0.preset = "large" } == .badRequest)
    }
}
