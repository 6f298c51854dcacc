package import JSONCoding

/// The description of an image for a client. The bytes are in the accompanying descriptor or payload.
public struct ImageReply: Equatable, Sendable {
    /// The place where the image was found.
    public enum Source: String, CaseIterable, Sendable {
        case memory, disk, network, shared
    }

    /// The layout of the pixels in memory; absent when the bytes are an encoded file.
    public struct Pixels: Equatable, Sendable {
        /// The number of bytes from one row to the next.
        public var stride: Int
        /// The order of a pixel's bytes.
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
    /// The URL in canonical spelling.
    public var url: String
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

    /// Creates a description of an image.
    public init(
        source: Source, url: String, width: Int, height: Int, pixels: Pixels?, bytes: Int, contentType: String,
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

    /// Writes all members except `type` and `id`.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("final", final)
        writer.member("source", source.rawValue)
        writer.member("url", url)
        writer.member("width", width)
        writer.member("height", height)
        if let pixels {
            writer.member("stride", pixels.stride)
            writer.member("pixelFormat", pixels.pixelFormat.rawValue)
            writer.member("alpha", pixels.alpha.rawValue)
        }
        writer.member("bytes", bytes)
        writer.member("offset", offset)
        writer.member("buffer", buffer)
        if let slot {
            writer.member("slot", slot.number)
            writer.member("generation", Int(slot.generation))
        }
        writer.member("fds", descriptors)
        writer.member("payload", payload)
        writer.member("contentType", contentType)
        writer.member("originalWidth", originalWidth)
        writer.member("originalHeight", originalHeight)
        writer.member("frameCount", frameCount)
        if let timing {
            // Frames have equal sizes and no gaps.
            let step = bytes / max(timing.delaysMs.count, 1)
            writer.array("frames", of: timing.delaysMs.enumerated()) {
                $0.member("offset", offset + $1.offset * step)
                $0.member("delayMs", $1.element)
            }
            writer.member("loops", timing.loops)
        }
        placeholder?.writeMembers(to: &writer)
        writer.member("etag", etag)
        if let expires { writer.member("expires", expires) } else { writer.null("expires") }
        writer.member("stale", stale)
    }

    /// Reads the members; nil when a required one is missing.
    init?(from reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        var (source, url, width, height): (Source?, String?, Int?, Int?)
        var (stride, pixelFormat, alpha, bytes): (Int?, PixelFormat?, AlphaMode?, Int?)
        var (contentType, originalWidth, originalHeight, etag): (String?, Int?, Int?, String?)
        var (frameCount, final, offset, buffer): (Int?, Bool?, Int?, Int?)
        var (descriptors, payload, expires, stale): (Int?, Int?, Int?, Bool?)
        var (delays, loops): ([Int]?, Int?)
        var (averageColor, thumbHash): (String?, String?)
        var (slot, generation): (Int?, Int?)
        let (side, any) = (0...PixelGeometry.maximumSide, 0...JSONReader.maximumInteger)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "final": final = try reader.boolean(name)
            case "source": source = try reader.choice(name)
            case "url": url = try reader.string(name)
            case "width": width = try reader.integer(name, in: side)
            case "height": height = try reader.integer(name, in: side)
            case "stride": stride = try reader.integer(name, in: any)
            case "pixelFormat": pixelFormat = try reader.choice(name)
            case "alpha": alpha = try reader.choice(name)
            case "bytes": bytes = try reader.integer(name, in: any)
            case "offset": offset = try reader.integer(name, in: any)
            case "buffer": buffer = try reader.integer(name, in: 1...JSONReader.maximumInteger)
            case "slot": slot = try reader.integer(name, in: any)
            case "generation": generation = try reader.integer(name, in: 0...Int(UInt32.max))
            case "fds": descriptors = try reader.integer(name, in: 0...1)
            case "payload": payload = try reader.integer(name, in: any)
            case "contentType": contentType = try reader.string(name)
            case "originalWidth": originalWidth = try reader.integer(name, in: any)
            case "originalHeight": originalHeight = try reader.integer(name, in: any)
            case "frameCount": frameCount = try reader.integer(name, in: any)
            case "frames":
                var read: [Int] = []
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    try reader.object(name) { (reader, name) throws(JSONReader.MalformedJSON) in
                        // The position of a frame follows from its index.
                        guard name == "delayMs" else { return try reader.skip() }
                        if let delay = try reader.integer(name, in: any) { read.append(delay) }
                    }
                }
                delays = read
            case "loops": loops = try reader.integer(name, in: any)
            case "averageColor": averageColor = try reader.string(name)
            case "thumbHash": thumbHash = try reader.string(name)
            case "etag": etag = try reader.string(name)
            case "expires" where !reader.nextIsNull: expires = try reader.integer(name, in: any)
            case "stale": stale = try reader.boolean(name)
            default: try reader.skip()
            }
        }
        guard let source, let url, let width, let height, let bytes, let contentType else { return nil }
        var pixels: Pixels?
        if let stride, let pixelFormat, let alpha {
            pixels = Pixels(stride: stride, pixelFormat: pixelFormat, alpha: alpha)
        }
        self.init(
            source: source, url: url, width: width, height: height, pixels: pixels, bytes: bytes,
            contentType: contentType, originalWidth: originalWidth ?? width, originalHeight: originalHeight ?? height,
            frameCount: frameCount ?? 1, etag: etag)
        self.final = final ?? true
        self.offset = offset ?? 0
        self.buffer = buffer
        if let slot, let generation { self.slot = Slot(number: slot, generation: UInt32(generation)) }
        self.descriptors = descriptors ?? 0
        self.payload = payload ?? 0
        self.expires = expires
        self.stale = stale ?? false
        if let delays { timing = AnimationTiming(delaysMs: delays, loops: loops ?? 1) }
        placeholder = Placeholder(averageColor: averageColor, thumbHash: thumbHash)
    }
}
