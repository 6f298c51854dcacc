import Digests
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues

/// All that `MemoryIndex` knows of the original and of the results of an image of which every buffer is packed, as one record of
/// bytes.
struct FrozenContent {
    struct Buffer {
        let id: BufferID
        let form: Form
        let bytes: Int
        let geometry: PixelGeometry?
        let usedAt: Instant
        let wasRequested: Bool
        let value: EvictionQueue.Value
    }

    let key: ContentKey
    /// The number of the original's bytes.
    let bytes: Int
    let header: ImageHeader?
    /// Whether any of its originals came from the disk tier.
    let isFromDisk: Bool
    let originals: [(key: OriginalKey, original: OriginalFacts)]
    let buffers: [Buffer]

    /// The most originals, and the most buffers, so that its record is read and written in some microseconds.
    static let mostParts = 4

    var bufferBytes: Int { buffers.reduce(0) { $0 + $1.bytes } }
    var usedAt: Instant { buffers.map(\.usedAt).max() ?? Instant(nanoseconds: 0) }

    /// The value of its most valuable buffer.
    var value: EvictionQueue.Value? { buffers.map(\.value).max { $0.priority < $1.priority } }
}

// MARK: Writing

extension FrozenContent {
    /// The record.
    var record: [UInt8] {
        var writer = RecordWriter()
        writer.digest(key.digest)
        writer.flags(key.owner != nil, key.pixels != nil, header != nil, header?.placeholder != nil, isFromDisk)
        if let owner = key.owner { writer.number(Int(owner)) }
        if let pixels = key.pixels { writer.object(pixels) }
        writer.number(bytes)
        if let header {
            writer.byte(Self.index(of: header.format))
            writer.geometry(header.geometry)
            writer.number(header.frameCount)
            if let placeholder = header.placeholder { writer.raw(placeholder.record) }
        }
        writer.number(originals.count)
        for (key, original) in originals { Self.write(key, original, to: &writer) }
        writer.number(buffers.count)
        for buffer in buffers { Self.write(buffer, to: &writer) }
        return writer.bytes
    }

    private static func write(_ key: OriginalKey, _ original: OriginalFacts, to writer: inout RecordWriter) {
        writer.flags(
            key.headers != nil, key.credentials != nil, key.cookies, key.allowInvalidCertificates, key.owner != nil,
            original.isFromDisk, original.isOnDisk, original.staysOffDisk)
        writer.text(key.url.text)
        if let headers = key.headers { writer.digest(headers) }
        if let credentials = key.credentials { writer.text(credentials) }
        if let owner = key.owner { writer.number(Int(owner)) }

        let origin = original.origin
        let response = origin.response
        writer.number(response.receivedAt)
        writer.signed(response.receivedAt - response.requestedAt)
        let time = response.receivedAt / 1000
        let isPlain =
            response.status == 200 && response.age == nil && response.expires == nil && response.vary == nil
            && response.redirects.isEmpty && response.servedBy == nil && response.finalURL == nil
            && origin.varyKey == nil
        writer.flags(isPlain)
        writer.date(response.date, near: time)
        writer.optional(response.cacheControl)
        writer.optional(response.etag)
        writer.date(response.lastModified, near: time)
        writer.optional(response.contentType)
        if !isPlain {
            writer.number(response.status)
            writer.optional(response.age)
            writer.date(response.expires, near: time)
            writer.optional(response.vary)
            writer.number(response.redirects.count)
            for redirect in response.redirects { writer.object(redirect) }
            writer.optional(response.servedBy)
            writer.optional(response.finalURL)
            writer.optional(origin.varyKey)
        }
        let policy = origin.policy.numbers
        writer.signed(policy.receivedAt - response.receivedAt)
        writer.number(policy.initialMs)
        writer.number(policy.lifetime)
        writer.number(policy.revalidate)
        writer.number(policy.error)
        writer.byte(policy.terms)
        writer.signed(Int(origin.bornAt.nanoseconds))
    }

    private static func write(_ buffer: Buffer, to writer: inout RecordWriter) {
        writer.number(buffer.id.number)
        writer.number(buffer.bytes)
        writer.signed(Int(buffer.usedAt.nanoseconds))
        writer.number(Int(buffer.value.cost.bitPattern))
        writer.byte(buffer.value.uses)
        let (transform, encoding) = (buffer.form.transform, buffer.form.encoding)
        // A transform without steps, of the first frame, is a few numbers.
        let isPlain = transform.map { $0.edits == nil && $0.background == .white && $0.frames == .one(0) } ?? false
        writer.flags(
            buffer.wasRequested, buffer.geometry != nil, transform != nil, encoding != nil, isPlain,
            transform?.isLight == true, transform?.acceptsDamage == true)
        if let geometry = buffer.geometry { writer.geometry(geometry) }
        if let encoding {
            writer.byte(index(of: encoding.format))
            writer.number(encoding.quality)
        }
        guard let transform else { return }
        if !isPlain { return writer.object(transform) }
        writer.optional(transform.width)
        writer.optional(transform.height)
        writer.optional(transform.byteLimit)
        writer.byte(
            index(of: transform.fit) << 4 | index(of: transform.pixelFormat) << 2 | index(of: transform.alpha))
    }

    private static func index<Value: CaseIterable & Equatable>(of value: Value) -> UInt8 {
        var index: UInt8 = 0
        for other in Value.allCases {
            if other == value { break }
            index += 1
        }
        return index
    }
}

// MARK: Reading

extension FrozenContent {
    /// Reads a record.
    init(_ record: ArraySlice<UInt8>) {
        var reader = RecordReader(record)
        let digest = reader.digest()
        let flags = reader.byte()
        let owner = flags & 1 == 0 ? nil : UInt32(reader.number())
        let pixels: StoredPixels? = flags & 2 == 0 ? nil : reader.object()
        key = ContentKey(digest: digest, owner: owner, pixels: pixels)
        bytes = reader.number()
        if flags & 4 == 0 {
            header = nil
        } else {
            var read = ImageHeader(
                format: Self.value(reader.byte()), geometry: reader.geometry(), frameCount: reader.number())
            if flags & 8 != 0 { read.placeholder = Placeholder(record: reader.raw()) }
            header = read
        }
        isFromDisk = flags & 16 != 0
        let (content, bytes) = (key, bytes)
        originals = (0..<reader.number()).map { _ in Self.readOriginal(of: content, bytes, from: &reader) }
        buffers = (0..<reader.number()).map { _ in Self.readBuffer(from: &reader) }
    }

    private static func readOriginal(
        of content: ContentKey, _ bytes: Int, from reader: inout RecordReader
    ) -> (OriginalKey, OriginalFacts) {
        let flags = reader.byte()
        let url = SourceURL(canonical: reader.text())
        let headers = flags & 1 == 0 ? nil : reader.digest()
        let credentials = flags & 2 == 0 ? nil : reader.text()
        let owner = flags & 16 == 0 ? nil : UInt32(reader.number())
        let key = OriginalKey(
            url: url, cacheKey: nil, headers: headers, credentials: credentials, cookies: flags & 4 != 0,
            allowInvalidCertificates: flags & 8 != 0, owner: owner)

        let receivedAt = reader.number()
        var response = ResponseRecord(requestedAt: receivedAt - reader.signed(), receivedAt: receivedAt)
        let time = receivedAt / 1000
        let isPlain = reader.byte() != 0
        response.date = reader.date(near: time)
        response.cacheControl = reader.optionalText()
        response.etag = reader.optionalText()
        response.lastModified = reader.date(near: time)
        response.contentType = reader.optionalText()
        var varyKey: String?
        if !isPlain {
            response.status = reader.number()
            response.age = reader.optionalText()
            response.expires = reader.date(near: time)
            response.vary = reader.optionalText()
            response.redirects = (0..<reader.number()).compactMap { _ in reader.object() }
            response.servedBy = reader.optionalText()
            response.finalURL = reader.optionalText()
            varyKey = reader.optionalText()
        }
        let policy = CachePolicy(
            CachePolicy.Numbers(
                receivedAt: receivedAt + reader.signed(), initialMs: reader.number(), lifetime: reader.number(),
                revalidate: reader.number(), error: reader.number(), terms: reader.byte()))
        let origin = OriginStatement(
            url: url, policy: policy, response: response, varyKey: varyKey,
            bornAt: Instant(nanoseconds: Int64(reader.signed())))
        return (
            key,
            OriginalFacts(
                content: content, bytes: bytes, origin: origin, isFromDisk: flags & 32 != 0,
                isOnDisk: flags & 64 != 0, staysOffDisk: flags & 128 != 0)
        )
    }

    private static func readBuffer(from reader: inout RecordReader) -> Buffer {
        let id = BufferID(number: reader.number())
        let bytes = reader.number()
        let usedAt = Instant(nanoseconds: Int64(reader.signed()))
        let value = EvictionQueue.Value(
            cost: Float(bitPattern: UInt32(truncatingIfNeeded: reader.number())), uses: reader.byte())
        let flags = reader.byte()
        let geometry = flags & 2 == 0 ? nil : reader.geometry()
        let encoding = flags & 8 == 0 ? nil : Encoding(Self.value(reader.byte()), quality: reader.number())
        var form = Form.original
        if flags & 4 != 0 {
            let transform = flags & 16 != 0 ? readTransform(flags, from: &reader) : reader.object() ?? Transform()
            form = encoding.map { .encoded(transform, $0) } ?? .pixels(transform)
        }
        return Buffer(
            id: id, form: form, bytes: bytes, geometry: geometry, usedAt: usedAt, wasRequested: flags & 1 != 0,
            value: value)
    }

    private static func readTransform(_ flags: UInt8, from reader: inout RecordReader) -> Transform {
        let (width, height, byteLimit) = (reader.optionalNumber(), reader.optionalNumber(), reader.optionalNumber())
        let choices = reader.byte()
        return Transform(
            width: width, height: height, fit: value(choices >> 4), byteLimit: byteLimit,
            pixelFormat: value(choices >> 2 & 3), alpha: value(choices & 3), isLight: flags & 32 != 0,
            acceptsDamage: flags & 64 != 0)
    }

    private static func value<Value: CaseIterable>(_ index: UInt8) -> Value {
        Value.allCases[Value.allCases.index(Value.allCases.startIndex, offsetBy: Int(index))]
    }
}

extension RecordWriter {
    fileprivate mutating func geometry(_ geometry: PixelGeometry) {
        number(geometry.width)
        number(geometry.height)
    }
}

extension RecordReader {
    fileprivate mutating func geometry() -> PixelGeometry {
        let width = number()
        return PixelGeometry(width: width, height: number()) ?? .blank
    }
}
