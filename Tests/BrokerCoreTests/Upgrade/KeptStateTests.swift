import CodingTestSupport
import Digests
import Foundation
import HTTPValues
import IPCProtocol
import JSONCoding
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// The bytes of a state.
struct KeptStateTests {
    static var full: KeptState {
        var state = KeptState()
        state.lastBuffer = 17
        state.isSuspended = true
        var process = KeptState.Process(listener: 3, path: "/run/imgbroker.sock")
        (process.device, process.inode, process.remover, process.cacheDirectory) = (-1, 2, 4, 5)
        (process.stored, process.storedState) = ([16], 3)
        process.closing = [6, 7]
        process.departed = [KeptState.Departed(descriptor: 8, user: 1000, unread: 2)]
        process.children = [KeptState.Child(pid: 100), KeptState.Child(pid: 101, user: 1000)]
        state.process = process
        var header = ImageHeader(format: .gif, geometry: PixelGeometry(width: 4, height: 3)!, frameCount: 2)
        header.timing = AnimationTiming(delaysMs: [10, 20], loops: 0)
        header.placeholder = Placeholder(averageColor: "#102030", thumbHash: "AAECAwQF")
        var content = KeptContent(
            digest: StrictWorld.digest(5), owner: 1000, pixels: nil, bytes: 1000, header: header)
        var original = KeptOriginal(
            url: "http://origin.test/1",
            response: ResponseRecord(requestedAt: 1, receivedAt: 2, cacheControl: "max-age=9", etag: "\"e\""))
        (original.cacheKey, original.headers, original.credentials) = ("name", StrictWorld.digest(6), "c")
        (original.cookies, original.owner, original.varyKey) = (true, 1000, "accept: */*")
        (original.isFromDisk, original.isOnDisk, original.staysOffDisk) = (true, true, true)
        content.originals = [original]
        var body = KeptBuffer.blank
        (body.number, body.bytes, body.contents) = (15, 3, [1, 2, 3])
        var pixels = KeptBuffer.blank
        (pixels.number, pixels.bytes, pixels.geometry) = (16, 48, header.geometry)
        (pixels.microseconds, pixels.uses, pixels.idleMs, pixels.wasRequested) = (900, 7, 40, true)
        pixels.transform = Transform(width: 4)
        pixels.place = KeptBuffer.Place(descriptor: 9, inode: 123)
        var file = pixels
        (file.number, file.encoding, file.bytes) = (17, Encoding(.webp, quality: 50), 20)
        content.buffers = [body, pixels, file]
        state.contents = [content]
        var client = KeptClient(descriptor: 11)
        client.holds = [
            KeptClient.Hold(buffer: 16, count: 2, bytes: 48),
            KeptClient.Hold(buffer: 15, count: 1, bytes: 3, isSending: true),
        ]
        client.subscriptions = [KeptClient.Subscription(id: 4, events: ["evicted", "worker"])]
        (client.input, client.unread, client.upgrade) = ([0, 0, 0, 9, 0x7B], 3, 8)
        client.program = "imgbroker-thumbnailer"
        var output = KeptClient.Output(bytes: [1, 2])
        output.descriptors = [9]
        output.payload = KeptClient.Payload(descriptor: 12, offset: 1, count: 2, buffer: 15)
        client.output = [output, KeptClient.Output(bytes: [3])]
        state.clients = [client, KeptClient(descriptor: 13)]
        return state
    }

    @Test func `a state is read as it was written, and its objects are as they stand`() throws {
        let (bytes, omitted) = Self.full.encoded
        #expect(omitted == 0)
        #expect(try KeptState(decoding: bytes) == Self.full)
        var decoder = FrameDecoder()
        decoder.append(bytes.dropLast(KeptState.footerLength))
        var number = 0
        while let frame = try decoder.next() {
            number += 1
            _ = try Golden(of: "BrokerCoreTests").text("state-\(number)", of: frame)
            var fields = try Fields(reading: frame)
            decoder.skipPayload(Envelope(&fields).payload)
        }
        #expect(number == 7)
    }

    @Test func `nothing is read of a state that was cut or changed`() throws {
        let bytes = Self.full.encoded.bytes
        for length in 0..<bytes.count {
            #expect(throws: StateRefusal.self) { try KeptState(decoding: Array(bytes[..<length])) }
        }
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= UInt8(1 << (index % 8))
            #expect(throws: StateRefusal.self) { try KeptState(decoding: changed) }
        }
        #expect(throws: StateRefusal.noState) { try KeptState(decoding: []) }
        var other = bytes
        other[bytes.count - 9] = UInt8(ascii: "2")
        #expect(throws: StateRefusal.otherVersion) { try KeptState(decoding: other) }
        other = bytes
        other[10] ^= 1
        #expect(throws: StateRefusal.damaged) { try KeptState(decoding: other) }
    }

    /// A state whose digest is right may still say anything.
    @Test(arguments: 1...30)
    func `a state that contradicts itself leaves the invariants as they are`(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let frames = Self.full.encoded.bytes.dropLast(KeptState.footerLength)
        var understood = 0
        for _ in 0..<400 {
            var changed = Array(frames)
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: 0..<changed.count, using: &random)
                // Most are digits, so that numbers change.
                changed[index] =
                    Bool.random(using: &random)
                    ? UInt8.random(in: 48...57, using: &random) : UInt8.random(in: 0...255, using: &random)
            }
            guard let state = try? KeptState(frames: changed[...]) else { continue }
            understood += 1
            let world = StrictWorld()
            let needed = world.state.restore(state, at: world.clock, unixMs: world.unixMs)
            world.buffers = needed
            world.memfds = needed.filter { world.state.memory.hasMemfd($0) }
            for key in world.state.memory.keys(where: { _ in true }) {
                guard let original = world.state.memory.original(key), original.isOnDisk else { continue }
                world.noteOnDisk(key: key.word, digest: original.content.digest.hexadecimal)
            }
            let client = world.connect()
            for kept in state.clients { world.state.restore(kept, of: client) }
            world.happen(.timePassed)
            world.disconnect(client)
        }
        #expect(understood > 0)
    }
}
