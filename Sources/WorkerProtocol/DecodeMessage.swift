internal import DiskRecords
package import IPCProtocol
package import JSONCoding

// The messages between the broker and a decode worker: frames of the wire protocol over a socket pair. For one job:
//
//     broker → decode   + 1 descriptor (encoded bytes, read only)
//     worker → header   the header was read, nothing allocated yet
//     broker → output   + 1 descriptor (a memfd of the result's size), or → refuse
//     worker → finished | failed
//
// The worker of the plain family answers a job of a format that another program decodes with `foreign` instead.
//
// Before anything is made of the bytes of a file, their digest is computed:
//
//     broker → identify + 1 descriptor (encoded bytes, read only), or 2 (and a memfd that can only shrink)
//     worker → identified | failed
//
// With the second descriptor, the worker also decodes the image, if it is certainly small. A small body comes in the
// frame, in place of its descriptor.
//
// Results that the broker copies to other memory are written to memory of the worker's, which is used again and again:
//
//     broker → memory   + 1 descriptor (a memfd that can be neither resized nor sealed), once
//
// An order with a place in it has no descriptor for the result. A `decode` with a place that the result fits ends with
// `decoded`, so that most small images take one message there and one back.
//
// A `describe` job ends with `header`, and so does a `header` job unless it requests metadata blocks that the file has:
// these are its result. A job for a partial file gets a descriptor that another process still writes to, and reads no
// more bytes than the order states; it fails with `truncated` while there is nothing to show. A worker sends `ready`
// once, and does one job after the other: further orders to identify, and to decode with a place, which the broker may
// send ahead, wait, and the reports on them may come together.

/// A decode worker's job: the result to produce from the encoded bytes.
package struct DecodeJob: Equatable, Sendable, FieldList {
    package enum Purpose: String, CaseIterable, Sendable {
        /// Pixels, written into the descriptor that `output` carries.
        case pixels
        /// The header only.
        case describe
        /// The header with its facts, and the metadata blocks of the transform.
        case header
    }

    /// The job's identifier in every report.
    package var id: Int
    package var purpose: Purpose
    /// The size and form of the result.
    package var transform: Transform
    /// The encoding of the result; nil for pixels.
    package var encoding: Encoding?
    /// Whether the result includes the image's placeholder.
    package var wantsPlaceholder = false
    /// An earlier job, of the same bytes, whose frames those of this one follow in the same form: if the worker still
    /// has its decoder, it goes on with it.
    package var after: Int?
    /// The number of bytes received of a file still being downloaded; nil for a complete file.
    package var partialBytes: Int?
    /// The layout of stored pixels; nil for encoded bytes.
    package var pixels: StoredPixels?
    /// Whether other orders may wait behind it. Then nothing is decoded before the answer to its header, else a crash
    /// could be blamed on the next one.
    package var isAmongOthers = false
    /// The maximum pixel count of the result, and of a source that is not scaled down.
    package var maxPixels: Int
    /// The maximum pixel count of a source that is scaled down row by row.
    package var maxSourcePixels: Int
    /// The maximum number of bytes the worker may hold at once for this job, excluding the result: the buffers that a
    /// codec must keep whole.
    package var maxWorkingBytes: Int

    /// Creates a job with the broker's default limits.
    package init(
        id: Int, purpose: Purpose = .pixels, transform: Transform = Transform(), maxPixels: Int = 50_000_000,
        maxSourcePixels: Int = 300_000_000, maxWorkingBytes: Int = 960 << 20
    ) {
        self.id = id
        self.purpose = purpose
        self.transform = transform
        self.maxPixels = maxPixels
        self.maxSourcePixels = maxSourcePixels
        self.maxWorkingBytes = maxWorkingBytes
    }

    package static var blank: DecodeJob { DecodeJob(id: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.job(&id)
        fields.choice("purpose", &purpose)
        transform.list(&fields)
        fields.group(with: "encoding", &encoding)
        fields.boolean("placeholder", &wantsPlaceholder)
        fields.integer("after", &after, in: 0...Int.max)
        fields.integer("partialBytes", &partialBytes, in: 1...Int.max)
        fields.object("pixels", &pixels)
        fields.flag("amongOthers", &isAmongOthers)
        fields.integer("maxPixels", &maxPixels, in: 1...Int.max)
        fields.integer("maxSourcePixels", &maxSourcePixels, in: 1...Int.max)
        fields.integer("maxWorkingBytes", &maxWorkingBytes, in: 1...Int.max)
    }
}

/// A decode worker's plan for a job, derived from the header and the transform.
package struct DecodePlan: Hashable, Sendable, FieldList {
    package var header: ImageHeader
    /// The result's size: `Transform.plan` of the header's size.
    package var result: PixelGeometry
    /// The number of bytes the worker will hold in addition to the result.
    package var workingBytes: Int
    /// For a partial file: the decoding progress, as a number that only grows (scans, passes or rows).
    package var stage: Int?

    package init(header: ImageHeader, result: PixelGeometry, workingBytes: Int, stage: Int? = nil) {
        self.header = header
        self.result = result
        self.workingBytes = workingBytes
        self.stage = stage
    }

    /// The bytes of the metadata blocks that follow the result.
    package func metadataBytes(_ kinds: MetadataKinds) -> Int {
        kinds.isEmpty ? 0 : header.facts?.metadata.delivered(kinds) ?? 0
    }

    /// Returns the size in bytes of the buffer to fill: that of all requested frames, or the maximum size of the
    /// encoded image, and that of the metadata blocks. No product here overflows, within the bounds on sides and
    /// frames.
    package func outputBytes(_ transform: Transform, _ encoding: Encoding?) -> Int {
        imageBytes(transform, encoding) + metadataBytes(transform.metadata)
    }

    private func imageBytes(_ transform: Transform, _ encoding: Encoding?) -> Int {
        let frames = header.count(of: transform.frames, as: encoding)
        if encoding == nil { return result.bytes(in: transform.pixelFormat) * frames }
        // More bytes than of its pixels are refused of an animation.
        return frames > 1 ? result.bytes * frames + (64 << 10) : Encoding.mostBytes(of: result)
    }

    package static var blank: DecodePlan { DecodePlan(header: .blank, result: .blank, workingBytes: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.choice("format", &header.format)
        fields.geometry("width", "height", &header.geometry)
        fields.integer("frameCount", &header.frameCount, in: 1...ImageHeader.maximumFrames)
        fields.geometry("resultWidth", "resultHeight", &result)
        fields.integer("workingBytes", &workingBytes, in: 0...Int.max)
        fields.integer("stage", &stage, in: 0...Int.max)
        fields.object("facts", &header.facts)
    }
}

/// The result of a finished job.
package struct DecodeResult: Equatable, Sendable, FieldList {
    /// The number of bytes written, from the start of the buffer.
    package var bytes: Int
    /// The image's placeholder, if requested.
    package var placeholder: Placeholder?
    /// The display times of all frames of the image; only for jobs that decode all of them, or a range.
    package var timing: AnimationTiming?
    /// Whether the image has an unusable color profile, so that it was treated as sRGB.
    package var ignoredProfile = false
    /// A sentence about rows that could not be decoded; nil if all were.
    package var damage: String?
    /// Whether it was made of a preview in the file.
    package var isPreview = false
    package var times = DecodeTimes()

    /// The longest sentence about damage, in bytes.
    package static let longestDamage = 1024

    package init(bytes: Int) {
        self.bytes = bytes
    }

    package static var blank: DecodeResult { DecodeResult(bytes: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("bytes", &bytes, in: 0...Int.max)
        fields.placeholder(&placeholder)
        fields.group(with: "delaysMs", &timing)
        fields.flag("ignoredProfile", &ignoredProfile)
        fields.string("damage", &damage, most: Self.longestDamage)
        fields.flag("preview", &isPreview)
        times.list(&fields)
    }
}

/// The part of the worker's memory that a result is written to.
package struct ResultPlace: Hashable, Sendable, FieldList {
    /// Its beginning, in bytes.
    package var offset: Int
    package var room: Int

    package init(offset: Int, room: Int) { (self.offset, self.room) = (offset, room) }

    package static var blank: ResultPlace { ResultPlace(offset: 0, room: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("offset", &offset, in: 0...Int(Int32.max))
        fields.integer("room", &room, in: 0...Int(Int32.max))
    }
}

/// A decoding that an identification brings along, if the image is small: it takes at most `maxSourcePixels`,
/// `maxWorkingBytes` and the memfd that comes with the order, or the place that it states.
package struct EarlyDecode: Equatable, Sendable, FieldList {
    package var job: DecodeJob
    /// The beginnings of the digests of bytes that must not be decoded, because decoders have died on them: each
    /// `prefixLength` digits.
    package var refused: [String]

    /// The hexadecimal digits of a digest's beginning.
    package static let prefixLength = 16

    package init(_ job: DecodeJob, refused: [String] = []) {
        self.job = job
        self.refused = refused
    }

    /// Whether bytes with this digest must not be decoded.
    package func refuses(_ digest: String) -> Bool { refused.contains { digest.hasPrefix($0) } }

    package static var blank: EarlyDecode { EarlyDecode(.blank) }

    package mutating func list(_ fields: inout Fields) {
        job.list(&fields)
        fields.strings("refused", orNone: &refused)
    }
}

/// The plan and the result of a decoding that needed no answer of the broker, because the result fits the memory that
/// came with the order.
package struct EarlyResult: Equatable, Sendable, FieldList {
    /// What the image is.
    package var plan: DecodePlan
    package var result: DecodeResult

    package init(_ plan: DecodePlan, _ result: DecodeResult) {
        self.plan = plan
        self.result = result
    }

    package static var blank: EarlyResult { EarlyResult(.blank, .blank) }

    package mutating func list(_ fields: inout Fields) {
        plan.list(&fields)
        result.list(&fields)
    }
}

/// A message from the broker, or another parent process, to a decode worker.
package enum DecodeOrder: Equatable, Sendable, WorkerMessage {
    /// Begins a job; carries the descriptor of the encoded bytes. A result that fits the place in the worker's memory
    /// is written there (`decoded`), without `output`.
    case decode(DecodeJob, at: ResultPlace? = nil)
    /// Continues the job; carries the memfd to fill, unless it states a place in the worker's memory.
    case output(job: Int, at: ResultPlace? = nil)
    /// Ends the job because its result is not wanted.
    case refuse(job: Int)
    /// Requests the digest of all bytes of the descriptor that it carries; with a decoding, the second descriptor is
    /// the memfd for its result, unless it states a place in the worker's memory.
    case identify(job: Int, early: EarlyDecode? = nil, at: ResultPlace? = nil)
    /// Carries the worker's memory for results.
    case memory

    package var descriptorCount: Int {
        switch self {
        case .identify(_, let early, let place): early == nil || place != nil ? 1 : 2
        case .decode, .memory: 1
        case .output(_, let place): place == nil ? 1 : 0
        case .refuse: 0
        }
    }
    package var mayHaveBytes: Bool {
        switch self {
        case .decode, .identify: true
        case .output, .refuse, .memory: false
        }
    }

    package var type: String {
        switch self {
        case .decode: "decode"
        case .output: "output"
        case .refuse: "refuse"
        case .identify: "identify"
        case .memory: "memory"
        }
    }

    package static let blanks: [DecodeOrder] = [
        .decode(.blank), .output(job: 0), .refuse(job: 0), .identify(job: 0), .memory,
    ]

    package mutating func list(_ fields: inout Fields) {
        switch self {
        case .decode(let job, let place):
            self = .decode(fields.members(of: job), at: fields.value(place) { $0.group(with: "offset", &$1) })
        case .output(let job, let place):
            self = .output(job: fields.job(job), at: fields.value(place) { $0.group(with: "offset", &$1) })
        case .refuse(let job): self = .refuse(job: fields.job(job))
        case .identify(let job, let early, let place):
            self = .identify(
                job: fields.job(job), early: fields.object("early", early),
                at: fields.value(place) { $0.group(with: "offset", &$1) })
        case .memory: break
        }
    }
}

/// A message from a decode worker.
package enum DecodeReport: Equatable, Sendable, WorkerMessage {
    /// The worker accepts jobs, with its sandbox and its version; nil when the message has none. `build` changes
    /// whenever the decoding code does.
    case ready(SandboxReport?, version: String? = ProductVersion.current, build: String? = nil)
    /// The job's header was read; unless the job only describes, `output` or `refuse` must follow.
    case header(job: Int, DecodePlan)
    /// The job has succeeded: all pixels, or all encoded bytes (their count), are written.
    case finished(job: Int, DecodeResult)
    /// The job has succeeded, and its result is in the place that came with the order.
    case decoded(job: Int, EarlyResult)
    /// The job has ended without a result.
    case failed(job: Int, WireError)
    /// The SHA-256 of the bytes, 64 hexadecimal digits, and the result of the early decoding; without it, nothing is
    /// known of the image but the format, if another program decodes it.
    case identified(job: Int, digest: String, early: EarlyResult? = nil, format: ImageFormat? = nil)
    /// The job has ended because another program decodes this format.
    case foreign(job: Int, ImageFormat)

    package var type: String {
        switch self {
        case .ready: "ready"
        case .header: "header"
        case .finished: "finished"
        case .decoded: "decoded"
        case .failed: "failed"
        case .identified: "identified"
        case .foreign: "foreign"
        }
    }

    package static let blanks: [DecodeReport] = [
        .ready(nil, version: nil), .header(job: 0, .blank), .finished(job: 0, .blank), .decoded(job: 0, .blank),
        .failed(job: 0, .blank), .identified(job: 0, digest: ""), .foreign(job: 0, .avif),
    ]

    package mutating func list(_ fields: inout Fields) {
        switch self {
        case .ready(let sandbox, let version, let build):
            self = .ready(
                fields.object("sandbox", sandbox), version: fields.string("version", version),
                build: fields.value(build) { $0.string("build", &$1, most: QuarantineRecord.longestBuild) })
        case .header(let job, let plan): self = .header(job: fields.job(job), fields.members(of: plan))
        case .finished(let job, let result):
            self = .finished(job: fields.job(job), fields.members(of: result))
        case .decoded(let job, let result): self = .decoded(job: fields.job(job), fields.members(of: result))
        case .failed(let job, let error): self = .failed(job: fields.job(job), fields.members(of: error))
        case .identified(let job, let digest, let early, let format):
            self = .identified(
                job: fields.job(job), digest: fields.digest("digest", digest),
                early: fields.object("early", early), format: fields.value(format) { $0.choice("format", &$1) })
        case .foreign(let job, let format):
            self = .foreign(job: fields.job(job), fields.value(format) { $0.choice("format", &$1) })
        }
    }
}

extension Encoding: FieldList {
    package static var blank: Encoding { Encoding(.png) }

    package mutating func list(_ fields: inout Fields) {
        var (format, quality) = (format, quality)
        fields.choice("encoding", &format)
        fields.integer("quality", &quality, in: 1...100)
        self = Encoding(format, quality: quality)
    }
}

extension AnimationTiming: FieldList {
    package static var blank: AnimationTiming { AnimationTiming(delaysMs: [], loops: 1) }

    package mutating func list(_ fields: inout Fields) {
        fields.integers("delaysMs", &delaysMs, in: 0...Int(UInt32.max))
        fields.integer("loops", &loops, in: 0...Int(UInt32.max), .optional)
    }
}
