package import JSONCoding

/// The framing of the wire protocol: a 4-byte unsigned big-endian length, then that number of bytes of JSON. Between
/// the broker and its workers, JSON may be packed, and bytes may follow it.
public enum Frame {
    /// The maximum length of a frame's JSON text, in bytes.
    public static let maximumLength = 1 << 20
    /// The size of the length field, in bytes.
    public static let headerLength = 4

    /// The error for a message whose JSON text exceeds `maximumLength`.
    public struct TooLong: Error, Equatable {
        /// The length of the text, in bytes.
        public let length: Int
    }

    /// Returns a frame with the object whose fields `list` names, in the memory of `storage`.
    package static func encode(
        reusing storage: consuming [UInt8] = [], _ list: (inout Fields) -> Void
    ) throws(TooLong) -> [UInt8] {
        var writer = JSONWriter(prefix: [0, 0, 0, 0], reusing: consume storage)
        Fields.write(&writer, list)
        let length = writer.bytes.count - headerLength
        if length > maximumLength { throw TooLong(length: length) }
        writer.overwrite(at: 0, with: UInt32(length))
        return writer.finish()
    }

    /// Appends a frame between the broker and its workers to other frames: with the object whose fields `list` names
    /// and then, if given, a zero and `bytes`.
    ///
    /// - Throws: `TooLong`; nothing is appended then.
    package static func append(
        to frames: inout [UInt8], _ form: JSONForm, followedBy bytes: RawSpan? = nil, _ list: (inout Fields) -> Void
    ) throws(TooLong) {
        let start = frames.count
        var moved: [UInt8] = []
        swap(&moved, &frames)
        var writer = JSONWriter(after: consume moved, form: form)
        writer.append(zeros: headerLength)
        Fields.write(&writer, list)
        if let bytes {
            writer.append(zeros: 1)
            writer.append(bytes)
        }
        let length = writer.bytes.count - start - headerLength
        if length <= maximumLength { writer.overwrite(at: start, with: UInt32(length)) }
        frames = writer.finish()
        if length > maximumLength {
            frames.removeSubrange(start...)
            throw TooLong(length: length)
        }
    }
}

/// Cuts a stream of bytes into frames and the payloads between them.
public struct FrameDecoder {
    /// The error for a length of zero or above the limit.
    public struct BadLength: Error, Equatable {
        /// The announced length.
        public let length: Int
    }

    private static let keptCapacity = 1 << 17

    private var buffer: [UInt8] = []
    private var consumed = 0
    /// The number of bytes of payload that are still to be skipped when they arrive.
    package private(set) var payloadToSkip = 0

    /// Creates a decoder that has received nothing.
    public init() {}

    /// Appends received bytes.
    public mutating func append(_ bytes: some Sequence<UInt8>) {
        unsafe append(Array(bytes).span.bytes)
    }

    /// Appends received bytes.
    public mutating func append(_ bytes: RawSpan) {
        var dropped = 0
        if payloadToSkip > 0, buffer.count == consumed {
            dropped = min(payloadToSkip, bytes.byteCount)
            payloadToSkip -= dropped
        }
        if consumed == buffer.count {
            // Release the memory of a long frame, which would otherwise be kept until the connection closes.
            buffer.removeAll(keepingCapacity: buffer.capacity <= Self.keptCapacity)
        } else if consumed > 0 {
            buffer.removeFirst(consumed)
        }
        consumed = 0
        unsafe bytes.withUnsafeBytes { all in unsafe buffer.append(contentsOf: all[dropped...]) }
    }

    /// Returns the contents of the next complete frame; nil until all of it has arrived.
    ///
    /// - Throws: `BadLength`; the stream is then unusable, because the start of the next frame is unknown.
    public mutating func next() throws(BadLength) -> ArraySlice<UInt8>? {
        dropPayload()
        guard payloadToSkip == 0, bufferedBytes >= Frame.headerLength else { return nil }
        let header = buffer[consumed..<consumed + Frame.headerLength]
        let length = header.reduce(0) { $0 << 8 | Int($1) }
        guard (1...Frame.maximumLength).contains(length) else { throw BadLength(length: length) }
        guard bufferedBytes >= Frame.headerLength + length else { return nil }
        let start = consumed + Frame.headerLength
        consumed = start + length
        return buffer[start..<consumed]
    }

    /// Skips the `count` bytes of payload that follow the frame last returned, including those yet to arrive.
    public mutating func skipPayload(_ count: Int) {
        payloadToSkip += count
        dropPayload()
    }

    /// Returns up to `count` bytes of the payload that follows the frame last returned: those that have arrived.
    public mutating func takePayload(upTo count: Int) -> ArraySlice<UInt8> {
        let taken = min(count, bufferedBytes)
        consumed += taken
        return buffer[consumed - taken..<consumed]
    }

    /// The number of bytes that have arrived and were not consumed.
    public var bufferedBytes: Int { buffer.count - consumed }

    /// The bytes that have arrived and were not consumed.
    package var unread: ArraySlice<UInt8> { buffer[consumed...] }

    /// Whether a frame or a payload is incomplete.
    public var isInsideFrame: Bool { bufferedBytes > 0 || payloadToSkip > 0 }

    private mutating func dropPayload() {
        let dropped = min(payloadToSkip, bufferedBytes)
        consumed += dropped
        payloadToSkip -= dropped
    }
}
