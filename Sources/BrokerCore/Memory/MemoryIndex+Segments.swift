import SystemValues

// The places of buffers in the segments of their owners.
extension MemoryIndex {
    /// The part of the budget that new segments leave free, so that what jobs reserve for a moment evicts nothing.
    private static let partWithoutSegments = 16
    /// The most images that are evicted for a new one.
    private static let mostEvictedForPlace = 256
    /// The most bytes that are moved at once out of segments that are to end.
    private static let mostMoved = 1 << 20

    /// Gives a new buffer a place in an owner's segments, if it need not be a memfd. Others may be removed for it.
    mutating func place(
        _ buffer: BufferID, bytes: Int, for owner: SegmentOwner
    ) -> (placement: Segments.Placement?, dropped: [BufferID]) {
        var dropped: [BufferID] = []
        for _ in 0..<Self.mostEvictedForPlace {
            let room = limit - limit / Self.partWithoutSegments - residentCharge - bytesOfHolds
            if let placement = segments.insert(buffer, bytes: bytes, for: owner, mostNew: room) {
                moved(placement.moves)
                return (placement, dropped + placement.dropped.compactMap { lostPlace($0) })
            }
            guard let pool = pools[owner],
                let slot = order.evict(from: pool, sparesHeld: true, isHeld: { buffers[$0].holders != 0 })
            else { break }
            if let buffer = evicted(slot) { dropped.append(buffer) }
        }
        return (nil, dropped)
    }

    /// Gives a buffer in the broker's own memory a place in the segments of an owner, as `place` does.
    mutating func moveIntoSegment(
        _ buffer: BufferID, of owner: SegmentOwner
    ) -> (placement: Segments.Placement?, dropped: [BufferID]) {
        guard let slot = buffers.slot(of: buffer), buffers[slot].home == .broker, buffers[slot].isResident else {
            return (nil, [])
        }
        let (placement, dropped) = place(buffer, bytes: buffers[slot].bytes, for: owner)
        guard let placement else { return (nil, dropped) }
        revision += 1
        residentBytes -= buffers[slot].charge
        buffers[slot].home = .segment(placement.place)
        residentBytes += buffers[slot].charge
        countHome(of: buffers[slot], 1)
        order.move(slot, to: pool(of: buffers[slot].home))
        if buffers[slot].holders > 0 { segments.setHeld(true, at: placement.place) }
        return (placement, dropped)
    }

    private mutating func moved(_ moves: [Segments.Move]) {
        if !moves.isEmpty { revision += 1 }
        for move in moves {
            if let slot = buffers.slot(of: move.buffer) { buffers[slot].home = .segment(move.to) }
        }
    }

    /// Evicts a buffer whose place was given to another.
    private mutating func lostPlace(_ buffer: BufferID) -> BufferID? {
        guard let slot = buffers.slot(of: buffer) else { return nil }
        order.remove(slot)
        let charge = buffers[slot].charge
        buffers[slot].home = .broker
        placedBuffers -= 1
        residentBytes += buffers[slot].charge - charge
        return evicted(slot)
    }

    mutating func free(_ place: Segments.Place) {
        if let owner = segments[place.segment]?.owner { ownersWithRoom.insert(owner) }
        noteEnd(segments.remove(from: place))
    }

    mutating func removeOrphan(_ buffer: BufferID) {
        guard let orphan = orphans.removeValue(forKey: buffer) else { return }
        orphanBytes -= orphan.bytes
        guard let place = orphan.place else { return orphanMemfds -= 1 }
        segments.setHeld(false, at: place)
        free(place)
    }

    mutating func noteEnd(_ segment: Segments.Ended?) { if let segment { endedSegments.append(segment) } }

    mutating func pool(of home: Home) -> Int {
        if home == .memfd { return Pool.memfds }
        guard case .segment(let place) = home, let owner = segments[place.segment]?.owner else { return Pool.broker }
        if let pool = pools[owner] { return pool }
        let pool = freePools.popLast() ?? Pool.firstOfOwner + pools.count
        pools[owner] = pool
        return pool
    }

    /// Moves a part of the images out of segments that are to end; returns those that had to be removed, too.
    mutating func moveOut(keeping needed: Set<BufferID>) -> (moves: [Segments.Move], dropped: [BufferID]) {
        let (moves, lost, ended) = segments.moveOut(mostBytes: Self.mostMoved, keeping: needed)
        moved(moves)
        endedSegments += ended
        return (moves, lost.compactMap { giveUpPlace(of: $0) })
    }

    /// Removes a buffer whose segment ends, and frees its place although someone may hold it. Returns it if it was
    /// still in the tables.
    private mutating func giveUpPlace(of buffer: BufferID) -> BufferID? {
        if let slot = buffers.slot(of: buffer), buffers[slot].isResident {
            order.remove(slot)
            if let removed = evicted(slot) { return removed }
        }
        let removed = remove(buffer)
        removeOrphan(buffer)
        return removed.first
    }

    /// Lets segments end that their owners do not need any more.
    mutating func endSpareSegments() {
        for owner in ownersWithRoom {
            while let ended = segments.endSpare(of: owner) { endedSegments.append(ended) }
        }
        ownersWithRoom = []
    }

    /// Lets the segments end in which these buffers lie, so that their bytes never change.
    mutating func endSegments(of buffers: [BufferID]) {
        for segment in Set(buffers.compactMap { (place(of: $0) ?? orphans[$0]?.place)?.segment }).sorted() {
            noteEnd(segments.end(segment))
        }
    }

    mutating func takeEndedSegments() -> [Segments.Ended] {
        if endedSegments.isEmpty { return [] }
        for (owner, pool) in pools where segments.bytes(of: owner) == 0 {
            pools[owner] = nil
            freePools.append(pool)
        }
        return exchange(&endedSegments, with: [])
    }

    /// Ends a segment that could not be made.
    mutating func lost(segment: Int) { noteEnd(segments.end(segment)) }

    /// Whether places have become free since `endSpareSegments`.
    var mayHaveSpareSegments: Bool { !ownersWithRoom.isEmpty }
}
