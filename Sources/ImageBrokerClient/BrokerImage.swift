public import IPCProtocol
public import SharedCache
internal import Synchronization

/// A picture from the broker. Its bytes are shared with every process that asked for the same, cannot change, and stay
/// valid for as long as this object lives, whatever becomes of the broker.
public final class BrokerImage: Sendable {
    /// What the broker says of it: size, format, where it was found.
    public let description: ImageReply
    /// The sealed memfd; nil for a picture that was only described or came inline.
    public let buffer: SealedBuffer?

    private let bytes: Bytes
    private let lease: Lease?

    private enum Bytes: ~Copyable, Sendable {
        case none
        case inline([UInt8])
        case mapped(Mapping)
        case small(SmallBuffer)
    }

    /// A picture that came in a sealed buffer.
    init(_ description: ImageReply, buffer: SealedBuffer, lease: Lease) throws(ClientError) {
        self.description = description
        self.buffer = buffer
        self.lease = lease
        if buffer.size <= SmallBuffer.largest {
            bytes = .small(SmallBuffer(buffer))
            return
        }
        do { bytes = .mapped(try Mapping(buffer)) } catch { throw .system(error) }
    }

    /// A picture that came inline, or not at all.
    init(_ description: ImageReply, payload: [UInt8]?) {
        self.description = description
        buffer = nil
        lease = nil
        bytes = payload.map { .inline($0) } ?? .none
    }

    /// Lends the picture's bytes: `description.height` rows of `description.pixels!.stride` bytes, or the encoded file.
    /// Empty for a picture that was only described.
    public func withBytes<Value>(_ body: (RawSpan) throws -> Value) rethrows -> Value {
        switch bytes {
        case .none: try body(RawSpan())
        case .inline(let bytes): try unsafe body(bytes.span.bytes)
        case .mapped(let mapping): try unsafe mapping.withBytes { try unsafe body($0.bytes.extracting(range)) }
        case .small(let small): try unsafe small.withBytes { try unsafe body($0.bytes.extracting(range)) }
        }
    }

    /// Where its bytes are in the buffer.
    private var range: Range<Int> { description.offset..<description.offset + description.bytes }
}

/// One lease on a buffer, given back when nobody needs it any more.
final class Lease: Sendable {
    let buffer: Int
    private let returned: LeaseReturns

    init(buffer: Int, returned: LeaseReturns) {
        self.buffer = buffer
        self.returned = returned
    }

    deinit {
        returned.add(buffer)
    }
}

/// Leases to be given back with the next message: images may be let go of on any thread, the connection is used by one.
final class LeaseReturns: Sendable {
    private let buffers = Mutex<[Int]>([])

    func add(_ buffer: Int) {
        buffers.withLock { $0.append(buffer) }
    }

    func take() -> [Int] {
        buffers.withLock { buffers in
            defer { buffers = [] }
            return buffers
        }
    }
}
