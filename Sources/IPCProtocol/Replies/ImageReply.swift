package import JSONCoding

/// A picture as it is described to a client; its bytes are in the descriptor or the payload that comes with it.
public struct ImageReply: Equatable, Sendable {
    /// Where the picture was found.
    public enum Source: String, CaseIterable, Sendable {
        case memory, disk, network, shared
    }

    /// How the pixels lie in memory; absent when the bytes are an encoded file.
    public struct Pixels: Equatable, Sendable {
        /// Bytes from one row to the next.
        public var stride: Int
        /// The order of a pixel's bytes.
        public var pixelFormat: PixelFormat
        /// How colour is stored beside alpha.
        public var alpha: AlphaMode

        /// Rows of `stride` bytes in the form given.
        public init(stride: Int, pixelFormat: PixelFormat, alpha: AlphaMode) {
            self.stride = stride
            self.pixelFormat = pixelFormat
            self.alpha = alpha
        }
    }

    /// Where the validity page says whether the same request would get the same again.
    public struct Slot: Hashable, Sendable {
        /// The slot's number.
        public var number: Int
        /// What its word must begin with.
        public var generation: UInt32

        /// One of the page's slots.
        public init(number: Int, generation: UInt32) {
            self.number = number
            self.generation = generation
        }
    }

    /// Whether no other frame for the same request follows.
    public var final = true
    /// Where the picture was found.
    public var source: Source
    /// The URL in its canonical spelling.
    public var url: String
    /// Pixels in a row.
    public var width: Int
    /// Rows.
    public var height: Int
    /// How the pixels lie in memory; nil for encoded bytes.
    public var pixels: Pixels?
    /// The bytes of the picture.
    public var bytes: Int
    /// Where they begin in the buffer.
    public var offset = 0
    /// The lease's name; nil without one.
    public var buffer: Int?
    /// Its place on the validity page; nil without one.
    public var slot: Slot?
    /// How many descriptors come with the frame.
    public var descriptors = 0
    /// How many bytes follow the frame.
    public var payload = 0
    /// What the original's bytes are.
    public var contentType: String
    /// The original's width as shown.
    public var originalWidth: Int
    /// The original's height as shown.
    public var originalHeight: Int
    /// Frames of an animation, else 1.
    public var frameCount: Int
    /// When the frames are shown; nil unless all were asked for.
    public var timing: AnimationTiming?
    /// What can be shown before the picture; nil while it is not known.
    public var placeholder: Placeholder?
    /// The original's entity tag.
    public var etag: String?
    /// Until when it is fresh, in Unix seconds.
    public var expires: Int?
    /// Whether it is no longer fresh.
    public var stale = false

    /// A picture's description.
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

    /// Writes the members but `type` and `id`.
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
            // Frames are of one size, without anything between them.
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

    /// Reads the members; nil when one that is needed is missing.
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
                        // Where a frame lies follows from its place.
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
