internal import DiskRecords
internal import IPCProtocol
package import JSONCoding

/// A segment, for the next process.
package struct KeptSegment: Equatable, Sendable {
    package var number: Int
    package var bytes: Int
    /// Its owner.
    package var uid: UInt32
    package var namespace: UInt64?
    /// The number of its descriptor.
    package var descriptor = 0

    package init(number: Int, bytes: Int, uid: UInt32, namespace: UInt64?) {
        (self.number, self.bytes, self.uid, self.namespace) = (number, bytes, uid, namespace)
    }
}

extension KeptSegment: FieldList {
    /// More than any segment has.
    private static let mostBytes = 1 << 40

    package static var blank: KeptSegment { KeptSegment(number: 1, bytes: 1, uid: 0, namespace: nil) }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("number", &number, in: 1...JSONReader.maximumInteger)
        fields.integer("bytes", &bytes, in: 1...Self.mostBytes)
        var user: UInt32? = uid
        fields.user("uid", &user)
        uid = user ?? 0
        var inode = namespace.map { Int(truncatingIfNeeded: $0) }
        fields.integer("namespace", &inode, in: Int.min...Int.max)
        namespace = inode.map { UInt64(truncatingIfNeeded: $0) }
        fields.integer("descriptor", &descriptor, in: 0...Int(Int32.max))
    }
}
