internal import IPCProtocol
package import JSONCoding

/// A segment, for the next process.
package struct KeptSegment: Equatable, Sendable, FieldList {
    package var number: Int
    package var bytes: Int
    package var uid: UInt32
    package var namespace: UInt64?
    package var descriptor = 0

    /// As many as `SegmentSpace` can divide.
    private static let mostBytes = 1 << 38

    package static var blank: KeptSegment { KeptSegment(number: 1, bytes: 1, uid: 0, namespace: nil) }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("number", &number, in: 1...Int(UInt32.max))
        fields.integer("bytes", &bytes, in: 1...Self.mostBytes)
        var user = Int(uid)
        fields.integer("uid", &user, in: 0...Int(UInt32.max))
        uid = UInt32(user)
        fields.namespace("namespace", &namespace)
        fields.integer("descriptor", &descriptor, in: 0...Int(Int32.max))
    }
}
