/// The number of one thing of a kind, never used for another of that kind.
package struct Identifier<Kind>: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let number: Int

    package init(number: Int) { self.number = number }

    package var description: String { "\(number)" }

    package func _rawHashValue(seed: Int) -> Int { multiplicativeHash(number, seed: seed) }

    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// A hash of numbers that an attacker cannot choose, such as sequential ones. A keyed hash takes ten times as long, and
/// a hit looks up two dozen numbers.
@inline(__always)
package func multiplicativeHash(_ number: Int, seed: Int) -> Int {
    let (high, low) = UInt(bitPattern: number ^ seed).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
    return Int(bitPattern: high ^ low)
}

package typealias ClientID = Identifier<ClientKind>
package typealias WorkerID = Identifier<WorkerProcessKind>
/// A download, an identification, a decoding, a lookup, or another request to the disk tier.
///
/// A job's *product* is the memfd with its result. The shell makes one when a transfer begins a body and when a
/// decoding may write its output, and the worker fills it; a lookup's product comes sealed from the cache process. The
/// shell has it under the job's number, even when the job has ended, until `Action.publish` makes it a buffer or
/// `Action.discard` drops it. Other jobs have no product.
package typealias JobID = Identifier<JobKind>
/// A sealed memfd. Its number names the lease on the wire.
package typealias BufferID = Identifier<BufferKind>
package typealias WaiterID = Identifier<WaiterKind>
/// A file whose descriptor a client has sent. A helper has the descriptor under this number until `Action.releaseFile`.
package typealias FileID = Identifier<FileKind>
package typealias PrefetchID = Identifier<PrefetchKind>

package enum ClientKind {}
package enum WorkerProcessKind {}
package enum JobKind {}
package enum BufferKind {}
package enum WaiterKind {}
package enum FileKind {}
package enum PrefetchKind {}

/// A source of new identifiers of one kind.
package struct IdentifierSource<Kind> {
    /// The last number that was given.
    package private(set) var last: Int

    /// Begins after a number.
    package init(after last: Int = 0) { self.last = last }

    package mutating func next() -> Identifier<Kind> {
        last += 1
        return Identifier(number: last)
    }
}
