public import IPCProtocol
public import SharedCache

/// An image from the broker. Its bytes are shared with every process that requested the same, cannot change, and stay
/// valid for as long as this object exists, even after the broker has exited.
public final class BrokerImage: Sendable {
    /// The broker's reply: size, format and source.
    public let reply: ImageReply
    /// The sealed memfd; nil for an image in a segment, which it shares with others, and for one that was delivered
    /// inline or not at all.
    public let buffer: SealedBuffer?

    private let bytes: Bytes
    private let lease: LeaseToken?

    private enum Bytes: ~Copyable, Sendable {
        case none
        case inline([UInt8])
        case mapped(Mapping)
        case small(SmallBuffer)
        case segment(Segment)
    }

    /// Creates an image that was delivered in a sealed buffer.
    init(_ reply: ImageReply, buffer: SealedBuffer, lease: LeaseToken) throws(ClientError) {
        self.reply = reply
        self.buffer = buffer
        self.lease = lease
        if buffer.size <= SmallBuffer.largest {
            bytes = .small(SmallBuffer(buffer))
            return
        }
        do { bytes = .mapped(try Mapping(buffer)) } catch { throw .system(error) }
    }

    /// Creates an image in a segment.
    init(_ reply: ImageReply, segment: Segment, lease: LeaseToken) {
        self.reply = reply
        buffer = nil
        self.lease = lease
        bytes = .segment(segment)
    }

    /// Creates an image that was delivered inline, or not at all.
    init(_ reply: ImageReply, payload: [UInt8]?) {
        self.reply = reply
        buffer = nil
        lease = nil
        bytes = payload.map { .inline($0) } ?? .none
    }

    /// The number of pixels in a row.
    public var width: Int { reply.width }
    /// The number of rows.
    public var height: Int { reply.height }

    /// Lends the image's bytes to `body`: `height` rows of `reply.pixels!.stride` bytes, or the encoded file. Empty for
    /// an image that was not delivered.
    ///
    /// The bytes are those that all processes share. An image of at most 256 KiB with a memfd of its own is copied at
    /// the first call, because mapping it would take longer.
    public func withBytes<Value>(_ body: (RawSpan) throws -> Value) rethrows -> Value {
        try withBytes(in: 0..<reply.bytes, body)
    }

    /// Returns a metadata block that the request has asked for; nil if the file has none, and if it is longer than 1
    /// MiB.
    public func metadata(_ kind: MetadataKind) -> [UInt8]? {
        guard let range = reply.range(of: kind) else { return nil }
        return withBytes(in: range) { bytes in unsafe bytes.withUnsafeBytes { unsafe Array($0) } }
    }

    /// Lends a range of bytes, counted from the image's first one.
    private func withBytes<Value>(in own: Range<Int>, _ body: (RawSpan) throws -> Value) rethrows -> Value {
        let range = reply.offset + own.lowerBound..<reply.offset + own.upperBound
        switch bytes {
        case .none: return try body(RawSpan())
        case .inline(let bytes): return try unsafe body(bytes.span.bytes.extracting(own))
        case .mapped(let mapping): return try unsafe mapping.withBytes { try unsafe body($0.bytes.extracting(range)) }
        case .small(let small): return try unsafe small.withBytes { try unsafe body($0.bytes.extracting(range)) }
        case .segment(let segment):
            // The broker may change the bytes after the lease.
            return try withExtendedLifetime(lease) {
                try unsafe segment.mapping.withBytes { try unsafe body($0.bytes.extracting(range)) }
            }
        }
    }

    /// Lends the image's bytes to `body` like `withBytes`, as a pointer for C functions. It is valid during the call
    /// only; nil for an image without bytes.
    public func withUnsafeBytes<Value>(_ body: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
        try withBytes { try unsafe $0.withUnsafeBytes(body) }
    }
}
