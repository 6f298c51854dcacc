package import JSONCoding

/// The description of an image for a client. The bytes are in the accompanying descriptor or payload.
public struct ImageReply: Equatable, Sendable {
    /// The place where the image was found.
    public enum Source: String, CaseIterable, Sendable {
        case memory, disk, network, shared, file
    }

    /// The layout of the pixels in memory; absent when the bytes are an encoded file.
    public struct Pixels: Equatable, Sendable {
        /// The number of bytes from one row to the next.
        public var stride: Int
        /// The bytes of a pixel.
        public var pixelFormat: PixelFormat
        /// The relation of the colour channels to alpha.
        public var alpha: AlphaMode

        /// Creates a layout of rows of `stride` bytes.
        public init(stride: Int, pixelFormat: PixelFormat, alpha: AlphaMode) {
            self.stride = stride
            self.pixelFormat = pixelFormat
            self.alpha = alpha
        }
    }

    /// The image's slot on the validity page. While the slot is valid, the same request would return the same image.
    public struct Slot: Hashable, Sendable {
        /// The slot's number.
        public var number: Int
        /// The generation, which the upper half of the slot's word must equal.
        public var generation: UInt32

        /// Creates a reference to a slot of the page.
        public init(number: Int, generation: UInt32) {
            self.number = number
            self.generation = generation
        }
    }

    /// Whether this is the last frame for the request.
    public var final = true
    /// The place where the image was found.
    public var source: Source
    /// The URL in canonical spelling; nil for a local file.
    public var url: String?
    /// The number of pixels in a row.
    public var width: Int
    /// The number of rows.
    public var height: Int
    /// The layout of the pixels in memory; nil for encoded bytes.
    public var pixels: Pixels?
    /// The number of bytes of the image.
    public var bytes: Int
    /// The position of the image in the buffer, in bytes.
    public var offset = 0
    /// The number of the leased buffer; nil without a lease.
    public var buffer: Int?
    /// The number of the segment in which the image lies; nil when it is in a memfd of its own.
    public var segment: Int?
    /// The number of bytes of the segment, together with its descriptor.
    public var segmentBytes: Int?
    /// The slot on the validity page; nil without one.
    public var slot: Slot?
    /// The number of descriptors that come with the frame.
    public var descriptors = 0
    /// The number of bytes of payload that follow the frame.
    public var payload = 0
    /// The media type of the original.
    public var contentType: String
    /// The original's width with the orientation applied.
    public var originalWidth: Int
    /// The original's height with the orientation applied.
    public var originalHeight: Int
    /// The number of frames; 1 for a still image.
    public var frameCount: Int
    /// The timing of the animation; nil unless all frames were requested.
    public var timing: AnimationTiming?
    /// The placeholder; nil while it is unknown.
    public var placeholder: Placeholder?
    /// The original's entity tag.
    public var etag: String?
    /// The expiry of its freshness, in Unix seconds.
    public var expires: Int?
    /// Whether it is no longer fresh.
    public var stale = false
    /// Whether a preview in the file was decoded instead of the image.
    public var embedded = false
    /// What the header says; nil unless the delivery is `header`.
    public var description: Description?
    /// The lengths of the metadata blocks: with `header` of all, else of the requested ones.
    public var metadata = MetadataLengths()
    /// The kinds of blocks that follow the image, as far as the file has them and they are at most 1 MiB long.
    public var blocks: MetadataKinds = []
    /// A sentence about the parts that could not be decoded; nil for an image without damage.
    public var damage: String?
    /// Where the time went; empty unless the request asked for it.
    public var spans: [TraceSpan] = []

    /// Creates a description of an image.
    public init(
        source: Source, url: String?, width: Int, height: Int, pixels: Pixels?, bytes: Int, contentType: String,
        originalWidth: Int, originalHeight: Int, frameCount: Int, etag: String?
    ) {
        self.source = source
        self.url = url
        self.width = width
        self.height = height
        self.pixels = pixels
        self.bytes = bytes
        self.contentType = contentType
        self.originalWidth = originalWidth
        self.originalHeight = originalHeight
        self.frameCount = frameCount
        self.etag = etag
    }

    /// The description of an image by its header and, if an origin has sent it, by the response.
    public struct Description: Equatable, Sendable {
        /// The format of the original.
        public var format: ImageFormat
        /// The further properties; their metadata lengths are those of the reply.
        public var facts: ImageFacts
        /// The status of the response.
        public var status: Int?
        /// `Last-Modified` of the response.
        public var lastModified: String?
        /// The number of bytes of the original; nil while it is unknown.
        public var length: Int?

        /// Creates a description.
        public init(format: ImageFormat, facts: ImageFacts) { (self.format, self.facts) = (format, facts) }
    }

    /// States the lengths of the requested blocks, which follow the image if that is delivered.
    package mutating func add(
        _ lengths: MetadataLengths?, _ kinds: MetadataKinds, of delivery: GetOptions.Delivery
    ) {
        guard let lengths else { return }
        for kind in kinds.kinds {
            metadata[kind] = lengths[kind]
            if delivery != .none, lengths.delivered(kind) != nil { blocks.insert(kind) }
        }
    }

    /// The bytes of the image and of the metadata blocks that follow it.
    package var bufferBytes: Int { bytes.addingReportingOverflow(metadata.delivered(blocks)).partialValue }

    /// The position of a metadata block, counted from the image's first byte; nil for one that was not delivered.
    public func range(of kind: MetadataKind) -> Range<Int>? {
        var start = bytes
        for other in blocks.kinds {
            let length = metadata.delivered(other)
            if other == kind { return length.map { start..<start + $0 } }
            start += length ?? 0
        }
        return nil
    }

    /// Whether the rows of all frames lie within its bytes; true of an encoded image.
    package var holdsPixels: Bool {
        guard let pixels else { return true }
        let frames = max(timing?.delaysMs.count ?? 1, 1)
        let (rows, isTooHigh) = pixels.stride.multipliedReportingOverflow(by: height)
        let (all, isTooLong) = rows.multipliedReportingOverflow(by: frames)
        return pixels.stride >= width * pixels.pixelFormat.bytesPerPixel && !isTooHigh && !isTooLong && all <= bytes
    }
}

extension ImageReply: FieldList {
    package static var blank: ImageReply {
        ImageReply(
            source: .memory, url: nil, width: 0, height: 0, pixels: nil, bytes: 0, contentType: "", originalWidth: 0,
            originalHeight: 0, frameCount: 1, etag: nil)
    }

    /// All members except `type` and `id`.
    package mutating func list(_ fields: inout Fields) {
        let (side, any) = (0...PixelGeometry.maximumSide, 0...JSONReader.maximumInteger)
        fields.boolean("final", &final, .optional)
        fields.choice("source", &source)
        fields.string("url", &url)
        fields.integer("width", &width, in: side)
        fields.integer("height", &height, in: side)
        fields.group(with: "stride", &pixels)
        fields.integer("bytes", &bytes, in: any)
        fields.integer("offset", &offset, in: any, .optional)
        fields.integer("buffer", &buffer, in: 1...JSONReader.maximumInteger)
        fields.integer("segment", &segment, in: 1...JSONReader.maximumInteger)
        fields.integer("segmentBytes", &segmentBytes, in: 1...JSONReader.maximumInteger)
        fields.group(with: "slot", &slot)
        fields.integer("fds", &descriptors, in: 0...1, .optional)
        fields.integer("payload", &payload, in: any, .optional)
        fields.string("contentType", &contentType)
        if fields.isReading { (originalWidth, originalHeight) = (width, height) }
        fields.integer("originalWidth", &originalWidth, in: any, .optional)
        fields.integer("originalHeight", &originalHeight, in: any, .optional)
        fields.integer("frameCount", &frameCount, in: any, .optional)
        listTiming(&fields)
        fields.placeholder(&placeholder)
        fields.string("etag", &etag)
        fields.nullableInteger("expires", &expires, in: any)
        fields.boolean("stale", &stale, .optional)
        listDamage(&fields)
        fields.flag("embedded", &embedded)
        fields.group(with: "format", &description)
        listMetadata(&fields)
        fields.objects("spans", orNone: &spans, most: TraceSpan.most)
    }

    /// Blocks that follow the image have an `offset`.
    private mutating func listMetadata(_ fields: inout Fields) {
        guard fields.isReading ? fields.has("metadata") : metadata != MetadataLengths() else { return }
        var (lengths, delivered) = (metadata, blocks)
        let (isReading, start) = (fields.isReading, offset)
        let ranges = MetadataKind.allCases.map { range(of: $0) }
        fields.object("metadata") { fields in
            for (kind, range) in zip(MetadataKind.allCases, ranges) {
                var block = lengths[kind].map { Block(bytes: $0, offset: range.map { start + $0.lowerBound }) }
                switch kind {
                case .exif: fields.object("exif", &block)
                case .xmp: fields.object("xmp", &block)
                case .icc: fields.object("icc", &block)
                }
                guard isReading, let block else { continue }
                lengths[kind] = block.bytes
                if block.offset != nil { delivered.insert(kind) }
                if let offset = block.offset {
                    let before = delivered.kinds.filter { $0 != kind }.reduce(0) { $0 + (lengths.delivered($1) ?? 0) }
                    if lengths.delivered(kind) == nil || offset != start + bytes + before {
                        fields.note("\(kind.rawValue).offset", expected: "the end of what precedes the block")
                    }
                }
            }
        }
        (metadata, blocks) = (lengths, delivered)
    }

    /// A metadata block in the reply.
    private struct Block: FieldList {
        static var blank: Block { Block(bytes: 0) }

        var bytes: Int
        /// Its position in the buffer or payload; nil for one that is not there.
        var offset: Int?

        mutating func list(_ fields: inout Fields) {
            fields.integer("bytes", &bytes, in: 0...JSONReader.maximumInteger)
            fields.integer("offset", &offset, in: 0...JSONReader.maximumInteger)
        }
    }

    private mutating func listDamage(_ fields: inout Fields) {
        var isDamaged = damage != nil
        fields.flag("damaged", &isDamaged)
        fields.string("damage", &damage)
        if fields.isReading { damage = isDamaged ? damage ?? "" : nil }
    }

    private mutating func listTiming(_ fields: inout Fields) {
        guard fields.isReading ? fields.has("frames") : timing != nil else { return }
        var (delays, loops) = (timing?.delaysMs ?? [], timing?.loops ?? 1)
        // Frames have equal sizes and no gaps.
        let step = bytes / max(delays.count, 1)
        var frames = delays.enumerated().map { Frame(offset: offset + $0.offset * step, delayMs: $0.element) }
        fields.objects("frames", &frames)
        fields.integer("loops", &loops, in: 0...JSONReader.maximumInteger, .optional)
        if fields.isReading {
            delays = frames.map(\.delayMs)
            let step = bytes / max(frames.count, 1)
            if frames.enumerated().contains(where: { $0.element.offset != offset + $0.offset * step }) {
                fields.note("frames", expected: "frames of one size, one after the other")
            }
        }
        timing = AnimationTiming(delaysMs: delays, loops: loops)
    }

    /// A frame of an animation in the reply.
    private struct Frame: FieldList {
        static var blank: Frame { Frame(offset: 0, delayMs: 0) }

        /// The position of its pixels in the buffer, in bytes.
        var offset: Int
        var delayMs: Int

        mutating func list(_ fields: inout Fields) {
            fields.integer("offset", &offset, in: 0...JSONReader.maximumInteger)
            fields.integer("delayMs", &delayMs, in: 0...JSONReader.maximumInteger)
        }
    }
}

extension ImageReply.Pixels: FieldList {
    package static var blank: ImageReply.Pixels {
        ImageReply.Pixels(stride: 0, pixelFormat: .rgba8, alpha: .premultiplied)
    }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("stride", &stride, in: 0...JSONReader.maximumInteger)
        fields.choice("pixelFormat", &pixelFormat)
        fields.choice("alpha", &alpha)
    }
}

extension ImageReply.Description: FieldList {
    package static var blank: ImageReply.Description { ImageReply.Description(format: .png, facts: ImageFacts()) }

    package mutating func list(_ fields: inout Fields) {
        fields.choice("format", &format)
        facts.listShown(&fields)
        fields.integer("loops", &facts.loops, in: 0...JSONReader.maximumInteger)
        fields.integer("status", &status, in: 0...999)
        fields.string("lastModified", &lastModified)
        fields.integer("length", &length, in: 0...JSONReader.maximumInteger)
    }
}

extension ImageReply.Slot: FieldList {
    package static var blank: ImageReply.Slot { ImageReply.Slot(number: 0, generation: 0) }

    package mutating func list(_ fields: inout Fields) {
        var wide = Int(generation)
        fields.integer("slot", &number, in: 0...JSONReader.maximumInteger)
        fields.integer("generation", &wide, in: 0...Int(UInt32.max))
        generation = UInt32(wide)
    }
}
