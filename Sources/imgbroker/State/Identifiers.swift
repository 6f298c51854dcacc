/// A number that names one thing of a kind, and no other of that kind ever after.
struct Identifier<Kind>: Hashable, Comparable, Sendable, CustomStringConvertible {
    let number: Int

    var description: String { "\(number)" }

    /// Numbers that are given out one after the other need no hash that nobody can guess: a product that reaches the
    /// lowest bits and the highest. A hit looks up two dozen of them, and the usual hash takes ten times as long.
    func _rawHashValue(seed: Int) -> Int {
        let (high, low) = UInt(bitPattern: number ^ seed).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        return Int(bitPattern: high ^ low)
    }

    static func < (left: Self, right: Self) -> Bool {
        left.number < right.number
    }
}

/// A client's connection.
typealias ClientID = Identifier<ClientKind>
/// A worker process.
typealias WorkerID = Identifier<WorkerProcessKind>
/// A download or a decoding.
typealias JobID = Identifier<JobKind>
/// A sealed memfd; its number is the lease's name on the wire.
typealias BufferID = Identifier<BufferKind>
/// A `get` that is not answered yet.
typealias WaiterID = Identifier<WaiterKind>
/// A `prefetch` that is not done yet.
typealias PrefetchID = Identifier<PrefetchKind>

enum ClientKind {}
enum WorkerProcessKind {}
enum JobKind {}
enum BufferKind {}
enum WaiterKind {}
enum PrefetchKind {}

/// Gives out identifiers of one kind.
struct IdentifierSource<Kind> {
    private var last = 0

    mutating func next() -> Identifier<Kind> {
        last += 1
        return Identifier(number: last)
    }
}
