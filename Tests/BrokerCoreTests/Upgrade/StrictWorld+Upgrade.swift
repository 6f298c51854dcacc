import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

extension StrictWorld {
    /// Hands the state over as an upgrade does, and compares what the next process has.
    func checkSuccessor() throws {
        var kept = state.kept()
        kept.clients = clients.keys.sorted().map { state.kept($0, descriptor: $0.number) }
        for content in kept.contents.indices {
            for buffer in kept.contents[content].buffers.indices {
                let record = kept.contents[content].buffers[buffer]
                if record.segment != nil { continue }
                if memfds.contains(BufferID(number: record.number)) {
                    kept.contents[content].buffers[buffer].place = KeptBuffer.Place(descriptor: 1, inode: 1)
                } else {
                    kept.contents[content].buffers[buffer].contents = Array(repeating: 0, count: record.bytes)
                }
            }
        }
        let (bytes, omitted) = kept.encoded
        let read = try KeptState(decoding: bytes)
        #expect(omitted == 0 && read == kept)

        // Half of the time it makes no segments any more, and knows no mount namespaces.
        var limits = state.limits
        if clients.count % 2 == 0 { limits.mostSegmentImageBytes = 0 }
        let next = StrictWorld(limits)
        (next.clock, next.onDisk) = (clock, onDisk)
        next.buffers = next.state.restore(read, at: clock, unixMs: unixMs)
        next.memfds = memfds.intersection(next.buffers)
        next.segments = segments.successor(keeping: next.buffers)
        let memory = state.memory
        for content in kept.contents {
            for original in content.originals {
                let key = try #require(original.key)
                let found = next.state.memory.original(key)
                // Without the original, only what the disk tier has, too, may be missing.
                #expect(found?.content == memory.original(key)?.content || original.isOnDisk)
            }
            for buffer in content.buffers where !next.buffers.contains(BufferID(number: buffer.number)) {
                #expect(buffer.transform == nil && content.originals.allSatisfy(\.isOnDisk), "\(buffer)")
            }
        }
        for (client, old) in zip(read.clients, clients.keys.sorted()) {
            guard let known = state.clients[old] else { continue }
            let other = next.connect(uid: known.uid, isAdmin: known.isAdmin)
            next.state.restore(client, of: other)
            next.segments.connect(other, as: old, in: segments)
            #expect(next.state.clients.segmentOwner(of: other) == state.clients.segmentOwner(of: old))
            #expect(next.state.clients.held(by: other) == state.clients.held(by: old))
            #expect(next.state.clients.held(by: other, .sending) == state.clients.held(by: old, .sending))
        }
        next.state.endEmptySegments()
        next.happen(.timePassed)
        #expect(next.state.clients.subscriptionsTaken == state.clients.subscriptionsTaken)
        for client in next.clients.keys.sorted() { next.disconnect(client) }
    }
}
