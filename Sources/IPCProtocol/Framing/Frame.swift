package import JSONCoding

/// The framing of the wire protocol: a 4-byte unsigned big-endian length, then as many bytes of JSON.
public enum Frame {
    /// The longest JSON text of a frame, in bytes.
    public static let maximumLength = 1 << 20
    /// The bytes of the length before it.
    public static let headerLength = 4

    /// A frame with the object that `members` writes, in the memory of `storage`.
    package static func encode(
        reusing storage: consuming [UInt8] = [], _ members: (inout JSONWriter) -> Void
    ) -> [UInt8] {
        var writer = JSONWriter(prefix: [0, 0, 0, 0], reusing: consume storage)
        writer.object(members)
        writer.overwrite(at: 0, with: UInt32(writer.bytes.count - headerLength))
        return writer.bytes
    }
}

/// Cuts a stream of bytes into frames and the payloads between them.
public struct FrameDecoder {
    /// A length of zero, or one over the limit.
    public struct BadLength: Error, Equatable {
        /// The length that was announced.
        public let length: Int
    }

    private static let keptCapacity = 1 << 17

    private var buffer: [UInt8] = []
    private var consumed = 0
    private var payloadToDrop = 0

    /// Starts with nothing received.
    public init() {}

    /// Takes bytes as they arrived.
    public mutating func append(_ bytes: some Sequence<UInt8>) {
        unsafe append(Array(bytes).span.bytes)
    }

    /// Takes bytes as they arrived.
    public mutating func append(_ bytes: RawSpan) {
        var dropped = 0
        if payloadToDrop > 0, buffer.count == consumed {
            dropped = min(payloadToDrop, bytes.byteCount)
            payloadToDrop -= dropped
        }
        if consumed == buffer.count {
            // A long frame does not stay in memory for as long as its connection.
            buffer.removeAll(keepingCapacity: buffer.capacity <= Self.keptCapacity)
        } else if consumed > 0 {
            buffer.removeFirst(consumed)
        }
        consumed = 0
        unsafe bytes.withUnsafeBytes { all in unsafe buffer.append(contentsOf: all[dropped...]) }
    }

    /// The JSON text of the next complete frame; nil while it has not arrived whole.
    ///
    /// - Throws: `BadLength`; the stream is then lost, as nothing tells where the next frame begins.
    public mutating func next() throws(BadLength) -> ArraySlice<UInt8>? {
        dropPayload()
        guard payloadToDrop == 0, available >= Frame.headerLength else { return nil }
        let header = buffer[consumed..<consumed + Frame.headerLength]
        let length = header.reduce(0) { $0 << 8 | Int($1) }
        guard (1...Frame.maximumLength).contains(length) else { throw BadLength(length: length) }
        guard available >= Frame.headerLength + length else { return nil }
        let start = consumed + Frame.headerLength
        consumed = start + length
        return buffer[start..<consumed]
    }

    /// Steps over the `count` bytes of payload that follow the frame last returned, also those still to come.
    public mutating func skipPayload(_ count: Int) {
        payloadToDrop += count
        dropPayload()
    }

    /// Takes up to `count` of the bytes of payload that follow the frame last returned: those that have arrived.
    public mutating func takePayload(upTo count: Int) -> ArraySlice<UInt8> {
        let taken = min(count, available)
        consumed += taken
        return buffer[consumed - taken..<consumed]
    }

    /// The bytes that have arrived and were not taken.
    public var bufferedBytes: Int { available }

    /// Whether a frame or a payload has begun and not ended.
    public var isInsideFrame: Bool { available > 0 || payloadToDrop > 0 }

    private var available: Int { buffer.count - consumed }

    private mutating func dropPayload() {
        let dropped = min(payloadToDrop, available)
        consumed += dropped
        payloadToDrop -= dropped
    }
}
