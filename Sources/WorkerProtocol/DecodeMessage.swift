package import IPCProtocol
package import JSONCoding

// The messages between the broker and a decode worker: frames of the wire protocol over a socket pair. For one job:
//
//     broker → decode   + 1 descriptor (encoded bytes, read only)
//     worker → header   the header was read, nothing allocated yet
//     broker → output   + 1 descriptor (a memfd of the result's size), or → refuse
//     worker → finished | failed
//
// A `describe` job ends with `header`. A job for a partial file gets a descriptor that another process still writes to,
// and reads no more bytes than the order states; it fails with `truncated` while there is nothing to show. A worker
// sends `ready` once, and never accepts a second job before the first has ended.

/// A decode worker's job: the result to produce from the encoded bytes.
package struct DecodeJob: Equatable, Sendable {
    /// The kind of result.
    package enum Purpose: String, CaseIterable, Sendable {
        /// Pixels, written into the descriptor that `output` carries.
        case pixels
        /// The header only.
        case describe
    }

    /// The job's identifier in every report.
    package var id: Int
    /// Whether the job produces pixels or only describes the image.
    package var purpose: Purpose
    /// The size and form of the result.
    package var transform: Transform
    /// The encoding of the result; nil for pixels.
    package var encoding: Encoding?
    /// Whether the result includes the image's placeholder.
    package var wantsPlaceholder = false
    /// The number of bytes received of a file still being downloaded; nil for a complete file.
    package var partialBytes: Int?
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
}

/// A decode worker's plan for a job, derived from the header and the transform.
package struct DecodePlan: Hashable, Sendable {
    /// The image's header.
    package var header: ImageHeader
    /// The result's size: `Transform.plan` of the header's size.
    package var result: PixelGeometry
    /// The number of bytes the worker will hold in addition to the result.
    package var workingBytes: Int
    /// For a partial file: the decoding progress, as a number that only grows (scans, passes or rows).
    package var stage: Int?

    /// Creates a plan for an image with this header.
    package init(header: ImageHeader, result: PixelGeometry, workingBytes: Int, stage: Int? = nil) {
        self.header = header
        self.result = result
        self.workingBytes = workingBytes
        self.stage = stage
    }

    /// Returns the size in bytes of the buffer to fill: that of all requested frames, or the maximum size of the
    /// encoded image. No product here overflows, within the bounds on sides and frames.
    package func outputBytes(_ transform: Transform, _ encoding: Encoding?) -> Int {
        encoding == nil
            ? result.bytes * transform.frames.count(of: header.frameCount) : Encoding.mostBytes(of: result)
    }
}

/// The result of a finished job.
package struct DecodeResult: Equatable, Sendable {
    /// The number of bytes written, from the start of the buffer.
    package var bytes: Int
    /// The image's placeholder, if requested.
    package var placeholder: Placeholder?
    /// The display times of the frames; only for jobs that decode all of them.
    package var timing: AnimationTiming?
    /// Whether the image has an unusable color profile, so that it was treated as sRGB.
    package var ignoredProfile = false

    /// Creates a result of `bytes` bytes.
    package init(bytes: Int) {
        self.bytes = bytes
    }
}

/// A message from the broker, or another parent process, to a decode worker.
package enum DecodeOrder: Equatable, Sendable {
    /// Begins a job; carries the descriptor of the encoded bytes.
    case decode(DecodeJob)
    /// Continues the job; carries the memfd to fill.
    case output(job: Int)
    /// Ends the job because its result is not wanted.
    case refuse(job: Int)
}

/// A message from a decode worker.
package enum DecodeReport: Equatable, Sendable {
    /// The worker accepts jobs, with its sandbox; nil when the message has none. `build` changes whenever the decoding
    /// code does.
    case ready(SandboxReport?, build: String? = nil)
    /// The job's header was read; unless the job only describes, `output` or `refuse` must follow.
    case header(job: Int, DecodePlan)
    /// The job has succeeded: all pixels, or all encoded bytes (their count), are written.
    case finished(job: Int, DecodeResult)
    /// The job has ended without a result.
    case failed(job: Int, WireError)
}

extension DecodeOrder: WorkerMessage {
    package var descriptorCount: Int {
        switch self {
        case .decode, .output: 1
        case .refuse: 0
        }
    }

    package var type: String {
        switch self {
        case .decode: "decode"
        case .output: "output"
        case .refuse: "refuse"
        }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .decode(let job):
            writer.member("job", job.id)
            writer.member("purpose", job.purpose.rawValue)
            writer.member("width", job.transform.width)
            writer.member("height", job.transform.height)
            writer.member("fit", job.transform.fit.rawValue)
            writer.member("byteLimit", job.transform.byteLimit)
            writer.member("pixelFormat", job.transform.pixelFormat.rawValue)
            writer.member("alpha", job.transform.alpha.rawValue)
            job.transform.frames.write("frame", to: &writer)
            writer.member("linear", job.transform.isLight)
            writer.member("encoding", job.encoding?.format.rawValue)
            writer.member("quality", job.encoding?.quality)
            writer.member("placeholder", job.wantsPlaceholder)
            writer.member("partialBytes", job.partialBytes)
            writer.member("maxPixels", job.maxPixels)
            writer.member("maxSourcePixels", job.maxSourcePixels)
            writer.member("maxWorkingBytes", job.maxWorkingBytes)
        case .output(let job), .refuse(let job):
            writer.member("job", job)
        }
    }

    package init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        var (id, purpose, pixelFormat, alpha, maxPixels): (Int?, DecodeJob.Purpose?, PixelFormat?, AlphaMode?, Int?)
        var (encodingFormat, width, height, quality): (Encoding.Format?, Int?, Int?, Int?)
        var (frames, isLight, wantsPlaceholder, partialBytes): (FrameSelection?, Bool?, Bool?, Int?)
        var (fit, byteLimit, maxSourcePixels, maxWorkingBytes): (Transform.Fit?, Int?, Int?, Int?)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "job": id = try reader.integer(name, in: 0...Int.max)
            case "purpose": purpose = try reader.choice(name)
            case "pixelFormat": pixelFormat = try reader.choice(name)
            case "alpha": alpha = try reader.choice(name)
            case "fit": fit = try reader.choice(name)
            case "byteLimit": byteLimit = try reader.integer(name, in: 1...Int.max)
            case "maxPixels": maxPixels = try reader.integer(name, in: 1...Int.max)
            case "maxSourcePixels": maxSourcePixels = try reader.integer(name, in: 1...Int.max)
            case "maxWorkingBytes": maxWorkingBytes = try reader.integer(name, in: 1...Int.max)
            case "encoding": encodingFormat = try reader.choice(name)
            case "frame": frames = try FrameSelection(from: &reader, field: name)
            case "linear": isLight = try reader.boolean(name)
            case "placeholder": wantsPlaceholder = try reader.boolean(name)
            case "partialBytes": partialBytes = try reader.integer(name, in: 1...Int.max)
            case "width": width = try reader.integer(name, in: 1...PixelGeometry.maximumSide)
            case "height": height = try reader.integer(name, in: 1...PixelGeometry.maximumSide)
            case "quality": quality = try reader.integer(name, in: 1...100)
            default: try reader.skip()
            }
        }
        guard let id else { return nil }
        var encoding: Encoding?
        if let encodingFormat {
            guard let quality else { return nil }
            encoding = Encoding(encodingFormat, quality: quality)
        }
        switch type {
        case "decode":
            guard let purpose, let pixelFormat, let alpha, let fit, let frames, let isLight, let wantsPlaceholder,
                let maxPixels,
                let maxSourcePixels, let maxWorkingBytes
            else { return nil }
            let transform = Transform(
                width: width, height: height, fit: fit, byteLimit: byteLimit, pixelFormat: pixelFormat, alpha: alpha,
                frames: frames, isLight: isLight)
            var job = DecodeJob(
                id: id, purpose: purpose, transform: transform, maxPixels: maxPixels,
                maxSourcePixels: maxSourcePixels, maxWorkingBytes: maxWorkingBytes)
            job.encoding = encoding
            job.wantsPlaceholder = wantsPlaceholder
            job.partialBytes = partialBytes
            self = .decode(job)
        case "output": self = .output(job: id)
        case "refuse": self = .refuse(job: id)
        default: return nil
        }
    }
}

extension DecodeReport: WorkerMessage {
    package var descriptorCount: Int { 0 }

    package var type: String {
        switch self {
        case .ready: "ready"
        case .header: "header"
        case .finished: "finished"
        case .failed: "failed"
        }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .ready(let sandbox, let build):
            if let sandbox { writer.object("sandbox", sandbox.writeMembers) }
            writer.member("build", build)
        case .header(let job, let plan):
            writer.member("job", job)
            writer.member("format", plan.header.format.rawValue)
            writer.member("width", plan.header.geometry.width)
            writer.member("height", plan.header.geometry.height)
            writer.member("frameCount", plan.header.frameCount)
            writer.member("resultWidth", plan.result.width)
            writer.member("resultHeight", plan.result.height)
            writer.member("workingBytes", plan.workingBytes)
            writer.member("stage", plan.stage)
        case .finished(let job, let result):
            writer.member("job", job)
            writer.member("bytes", result.bytes)
            result.placeholder?.writeMembers(to: &writer)
            if let timing = result.timing {
                writer.array("delaysMs", of: timing.delaysMs)
                writer.member("loops", timing.loops)
            }
            if result.ignoredProfile { writer.member("ignoredProfile", true) }
        case .failed(let job, let error):
            writer.member("job", job)
            error.write(to: &writer)
        }
    }

    package init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        if type == "ready" {
            let (sandbox, build) = try SandboxReport.read(fromReady: &reader)
            self = .ready(sandbox, build: build)
            return
        }
        let text = reader
        var (id, format, width, height, frameCount, bytes): (Int?, ImageFormat?, Int?, Int?, Int?, Int?)
        var (resultWidth, resultHeight, workingBytes, stage): (Int?, Int?, Int?, Int?)
        var (averageColor, thumbHash, ignoredProfile): (String?, String?, Bool?)
        var (delays, loops): ([Int]?, Int?)
        let side = 1...PixelGeometry.maximumSide
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "job": id = try reader.integer(name, in: 0...Int.max)
            case "format": format = try reader.choice(name)
            case "width": width = try reader.integer(name, in: side)
            case "height": height = try reader.integer(name, in: side)
            case "frameCount": frameCount = try reader.integer(name, in: 1...ImageHeader.maximumFrames)
            case "resultWidth": resultWidth = try reader.integer(name, in: side)
            case "resultHeight": resultHeight = try reader.integer(name, in: side)
            case "workingBytes": workingBytes = try reader.integer(name, in: 0...Int.max)
            case "stage": stage = try reader.integer(name, in: 0...Int.max)
            case "bytes": bytes = try reader.integer(name, in: 0...Int.max)
            case "averageColor": averageColor = try reader.string(name)
            case "thumbHash": thumbHash = try reader.string(name)
            case "ignoredProfile": ignoredProfile = try reader.boolean(name)
            case "delaysMs":
                var read: [Int] = []
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    if let delay = try reader.integer(name, in: 0...Int(UInt32.max)) { read.append(delay) }
                }
                delays = read
            case "loops": loops = try reader.integer(name, in: 0...Int(UInt32.max))
            default: try reader.skip()
            }
        }
        guard let id else { return nil }
        switch type {
        case "header":
            guard let format, let width, let height, let geometry = PixelGeometry(width: width, height: height),
                let frameCount, let resultWidth, let resultHeight,
                let result = PixelGeometry(width: resultWidth, height: resultHeight), let workingBytes
            else { return nil }
            let header = ImageHeader(format: format, geometry: geometry, frameCount: frameCount)
            self = .header(
                job: id, DecodePlan(header: header, result: result, workingBytes: workingBytes, stage: stage))
        case "finished":
            guard let bytes else { return nil }
            var result = DecodeResult(bytes: bytes)
            result.placeholder = Placeholder(averageColor: averageColor, thumbHash: thumbHash)
            if result.placeholder == nil, averageColor != nil || thumbHash != nil { return nil }
            if let delays { result.timing = AnimationTiming(delaysMs: delays, loops: loops ?? 1) }
            result.ignoredProfile = ignoredProfile ?? false
            self = .finished(job: id, result)
        case "failed":
            reader = text
            self = .failed(job: id, try WireError(from: &reader))
        default: return nil
        }
    }
}
