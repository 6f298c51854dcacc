import BrokerCore
import TestSupport
import Testing

@testable import imgbroker

/// The bytes of packed buffers, compared with a dictionary.
struct PackedBuffersTests {
    @Test func `random steps have the result of a dictionary`() {
        var random = SeededRandom(state: 1)
        var buffers = PackedBuffers()
        var model: [BufferID: [UInt8]] = [:]
        for number in 1...4_000 {
            let id = BufferID(number: number << 20)
            #expect(buffers[id] == nil)
            #expect(buffers.remove(id) == nil)
            let length = Int.random(in: 0...2_000, using: &random)
            let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: length)
            buffers.insert(bytes, as: id)
            model[id] = bytes
            if model.count < 500 { continue }
            guard let gone = model.keys.randomElement(using: &random) else { continue }
            #expect(buffers[gone].map { Array($0) } == model[gone])
            #expect(buffers.remove(gone) == model.removeValue(forKey: gone)?.count)
            #expect(buffers[gone] == nil)
        }
        #expect(model.allSatisfy { id, bytes in buffers[id].map { Array($0) } == bytes })
    }
}
