import SharedCache

@testable import BrokerCore
@testable import imgbroker

struct BufferTableTests {
    /// Otherwise the bytes that are written to its old place next would be taken for its own.
    @Test func anImageThatCannotBeMovedIsGone() throws {
        let table = BufferTable { _ in }
        let (image, other) = (BufferID(number: 1), BufferID(number: 2))
        let (first, second) = (Segments.Place(segment: 1, offset: 0), Segments.Place(segment: 2, offset: 0))
        func place(_ byte: UInt8, as id: BufferID, newSegmentBytes: Int?) throws {
            let bytes = [UInt8](repeating: byte, count: 100)
            let placement = Segments.Placement(newSegmentBytes: newSegmentBytes, place: first)
            try table.place(Product(bytes: bytes), as: id, bytes: bytes.count, placement)
        }
        try place(1, as: image, newSegmentBytes: 1 << 16)
        // To a segment that another process has made, nothing can be written.
        let foreign = try Segment(size: 1 << 16)
        table.insert(try Segment(inherited: foreign.descriptor, size: 1 << 16), as: 2)
        let move = Segments.Move(buffer: image, from: first, to: second)
        #expect(table.move([move]) == [image])
        try place(2, as: other, newSegmentBytes: nil)
        #expect(table.source(of: image) == nil)
        #expect(table.source(of: other)?.bytes == [UInt8](repeating: 2, count: 100))
        #expect(table.move([move]) == [])
    }
}
