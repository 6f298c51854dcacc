import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Images in segments, beside a model that knows where each is.
struct SegmentsTests {
    private static let owners = [
        SegmentOwner(uid: 1, namespace: 1), SegmentOwner(uid: 1, namespace: 2), SegmentOwner(uid: 2, namespace: nil),
    ]

    private struct Model {
        struct Image {
            var place: Segments.Place
            let bytes: Int
            let owner: SegmentOwner
            var isHeld = false

            func isOverlapping(_ other: Segments.Place, bytes: Int) -> Bool {
                place.segment == other.segment && place.offset < other.offset + bytes
                    && other.offset < place.offset + self.bytes
            }
        }

        var segments = Segments()
        var segmentBytes: [Int: Int] = [:]
        var owner: [Int: SegmentOwner] = [:]
        var images: [BufferID: Image] = [:]
        /// The images in the order of their insertion, with those that are gone.
        var order: [BufferID] = []
        var next = 0
        let limit: Int
        private(set) var movedBytes = 0
        private(set) var insertedBytes = 0

        init(limit: Int) { self.limit = limit }

        /// A move may overwrite nothing that another one, or a client, still reads.
        private mutating func apply(_ moves: [Segments.Move]) throws {
            for move in moves {
                let image = try #require(images[move.buffer])
                #expect(!image.isHeld && image.place == move.from && owner[move.to.segment] == image.owner)
                #expect(!images.values.contains { $0.isOverlapping(move.to, bytes: image.bytes) })
                movedBytes += image.bytes
            }
            for move in moves { images[move.buffer]!.place = move.to }
        }

        private mutating func ended(_ segment: Segments.Ended?) {
            let number = segment?.number
            guard let number else { return }
            segmentBytes[number] = nil
            #expect(!images.values.contains { $0.place.segment == number })
        }

        mutating func insert(bytes: Int, for owner: SegmentOwner) throws {
            let buffer = BufferID(number: next)
            next += 1
            while true {
                let mostNew = limit - segments.totalBytes
                if let placement = segments.insert(buffer, bytes: bytes, for: owner, mostNew: mostNew) {
                    if let bytes = placement.newSegmentBytes {
                        segmentBytes[placement.place.segment] = bytes
                        self.owner[placement.place.segment] = owner
                    }
                    try apply(placement.moves)
                    for buffer in placement.dropped { #expect(images.removeValue(forKey: buffer)?.isHeld == false) }
                    images[buffer] = Image(place: placement.place, bytes: bytes, owner: owner)
                    order.append(buffer)
                    insertedBytes += bytes
                    return
                }
                guard try evictOldest(of: owner) else { return }
            }
        }

        private mutating func evictOldest(of owner: SegmentOwner) throws -> Bool {
            let index = order.firstIndex { images[$0]?.owner == owner && images[$0]?.isHeld == false }
            guard let index else { return false }
            remove(order[index])
            order.removeFirst(min(index, order.firstIndex { images[$0] != nil } ?? 0))
            return true
        }

        mutating func remove(_ buffer: BufferID) {
            guard let image = images.removeValue(forKey: buffer) else { return }
            ended(segments.remove(from: image.place))
        }

        mutating func setHeld(_ isHeld: Bool, _ buffer: BufferID) {
            images[buffer]!.isHeld = isHeld
            segments.setHeld(isHeld, at: images[buffer]!.place)
        }

        mutating func shrink(_ owner: SegmentOwner) throws {
            ended(segments.endSpare(of: owner))
            let needed = Set(images.keys.filter { $0.number % 4 == 0 })
            let (moves, lost, numbers) = segments.moveOut(mostBytes: 1 << 20, keeping: needed)
            #expect(moves.reduce(0) { $0 + images[$1.buffer]!.bytes } <= 2 << 20)
            try apply(moves)
            for buffer in lost {
                #expect(!images[buffer]!.isHeld || !needed.contains(buffer))
                setHeld(false, buffer)
                remove(buffer)
            }
            for number in numbers { ended(number) }
        }

        func check() {
            #expect(segments.brokenInvariant() == nil)
            #expect(segments.totalBytes == segmentBytes.values.reduce(0, +))
            for (number, images) in Dictionary(grouping: images.values, by: \.place.segment) {
                let sorted = images.sorted { $0.place.offset < $1.place.offset }
                #expect(sorted.allSatisfy { $0.owner == owner[number] })
                #expect(zip(sorted, sorted.dropFirst()).allSatisfy { $0.place.offset + $0.bytes <= $1.place.offset })
                #expect(sorted.last.map { $0.place.offset + $0.bytes } ?? 0 <= segmentBytes[number]!)
            }
        }

        /// The share of the segments' bytes that are no image's.
        var lostShare: Double {
            1 - Double(images.values.reduce(0) { $0 + $1.bytes }) / Double(segments.totalBytes)
        }
    }

    /// A size between `least` and `most`, of which each power of two is as likely.
    private static func size(_ least: Double, _ most: Double, _ random: inout SplitMix64) -> Int {
        var size = least
        while size * 2 <= most, Bool.random(using: &random) || size < most / 32 && Bool.random(using: &random) {
            size *= 2
        }
        return Int(Double.random(in: size...min(most, size * 2), using: &random))
    }

    @Test func `a user has segments for sixteen namespaces, and others have theirs`() {
        var segments = Segments()
        func hasPlace(_ number: Int, _ uid: UInt32, _ namespace: Int) -> Bool {
            let owner = SegmentOwner(uid: uid, namespace: UInt64(namespace))
            return segments.insert(BufferID(number: number), bytes: 100, for: owner, mostNew: 1 << 30) != nil
        }
        #expect((1...20).filter { hasPlace($0, 1, $0) } == Array(1...16))
        #expect(hasPlace(21, 1, 16) && hasPlace(22, 2, 17) && segments.brokenInvariant() == nil)
    }

    @Test(arguments: 1...4) func `images keep their bytes while others come, go and are moved`(seed: Int) throws {
        var random = SplitMix64(state: UInt64(seed))
        var model = Model(limit: 12 << 20)
        for step in 0..<2000 {
            let owner = Self.owners[Int.random(in: 0..<3, using: &random)]
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5: try model.insert(bytes: Self.size(1, 600_000, &random), for: owner)
            case 5..<7:
                if let buffer = model.images.keys.randomElement(using: &random) { model.remove(buffer) }
            case 7: try model.shrink(owner)
            default:
                let held = model.images.filter(\.value.isHeld)
                if held.count > 10, let (buffer, _) = held.randomElement(using: &random) {
                    model.setHeld(false, buffer)
                } else if let (buffer, image) = model.images.randomElement(using: &random) {
                    model.setHeld(!image.isHeld, buffer)
                }
            }
            #expect(model.segments.totalBytes <= 12 << 20)
            if step % 20 == 0 { model.check() }
        }
        // Nothing is left.
        for buffer in Array(model.images.keys) { model.remove(buffer) }
        for owner in Self.owners {
            for _ in 0..<100 where model.segments.bytes(of: owner) > 0 { try model.shrink(owner) }
        }
        #expect(model.segments.totalBytes == 0 && model.segmentBytes.isEmpty)
    }

    @Test func `images that are held give way to the end of their segment at the second time`() throws {
        var segments = Segments()
        let (leased, needed) = (BufferID(number: 1), BufferID(number: 2))
        for buffer in [leased, needed] {
            let place = try #require(
                segments.insert(buffer, bytes: 1000, for: Self.owners[0], mostNew: 1 << 20)?.place)
            segments.setHeld(true, at: place)
        }
        #expect(segments.end(1) == nil && segments.canMoveOut)
        #expect(segments.moveOut(mostBytes: 1000, keeping: [needed]).lost == [])
        #expect(!segments.canMoveOut && segments.heldInEnding == [leased, needed])
        #expect(segments.moveOut(mostBytes: 1000, keeping: [needed]).lost == [leased])
        #expect(segments.remove(from: Segments.Place(segment: 1, offset: 0)) == nil)
        segments.setHeld(false, at: Segments.Place(segment: 1, offset: 1024))
        // There is no other segment for it.
        let (moves, lost, _) = segments.moveOut(mostBytes: 1000, keeping: [])
        #expect(moves.isEmpty && lost == [needed])
        #expect(segments.remove(from: Segments.Place(segment: 1, offset: 1024))?.number == 1)
    }

    /// With a fifth of the bytes held, and with sizes that change from phase to phase.
    @Test(arguments: [false, true]) func `after a long history few bytes are lost`(inPhases: Bool) throws {
        var random = SplitMix64(state: 9)
        var model = Model(limit: 128 << 20)
        var (held, heldBytes): ([BufferID], Int) = ([], 0)
        var (least, most) = (1024.0, 1_048_576.0)
        var losses: [Double] = []
        for step in 0..<9000 {
            if inPhases, step % 2000 == 0 {
                least = Double(1024 << Int.random(in: 0..<9, using: &random))
                most = min(1_048_576, least * 3)
            }
            try model.insert(bytes: Self.size(least, most, &random), for: Self.owners[0])
            if step % 2 == 0, let buffer = model.order.last, model.images[buffer] != nil {
                held.append(buffer)
                heldBytes += model.images[buffer]!.bytes
                model.setHeld(true, buffer)
            }
            while heldBytes > 25 << 20 {
                let buffer = held.remove(at: Int.random(in: 0..<held.count, using: &random))
                heldBytes -= model.images[buffer]!.bytes
                model.setHeld(false, buffer)
            }
            if step > 5000, step % 20 == 0 { losses.append(model.lostShare) }
        }
        #expect(losses.count > 100 && losses.max()! <= 0.1)
        #expect(model.movedBytes * 5 < model.insertedBytes)
        model.check()
    }
}
