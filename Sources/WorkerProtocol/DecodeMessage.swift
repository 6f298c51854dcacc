package import IPCProtocol
package import JSONCoding

// What the broker and a decode worker say to each other: frames of the wire protocol over a socket pair. For one job:
//
//     broker → decode   + 1 descriptor (encoded bytes, read only)
//     worker → header   the header was read, nothing allocated yet
//     broker → output   + 1 descriptor (a memfd of the result's size), or → refuse
//     worker → finished | failed
//
// A job that only describes ends with `header`. One for a part of a file gets a descriptor that others still write to, and
// reads no more of it than the order says; it fails with `truncated` while there is nothing to show. A worker says `ready` once, and never takes a second job before the
// first has ended.

/// What a decode worker is to make of the encoded bytes.
package struct DecodeJob: Equatable, Sendable {
    /// What the result is for.
    package enum Purpose: String, CaseIterable, Sendable {
        /// Pixels into the descriptor that `output` brings.
        case pixels
        /// The header alone.
        case describe
    }

    /// Names the job in every report about it.
    package var id: Int
    /// Whether pixels are wanted, or only their description.
    package var purpose: Purpose
    /// The size and form of the result.
    package var transform: Transform
    /// How the result is encoded; nil for pixels.
    package var encoding: Encoding?
    /// Whether the picture's placeholder is wanted with the result.
    package var wantsPlaceholder = false
    /// How much of a file that is still on its way is there; nil for a whole one.
    package var partialBytes: Int?
    /// The most pixels the result may have, and the source too where it is not made smaller.
    package var maxPixels: Int
    /// The most pixels a source may have that is made smaller row by row.
    package var maxSourcePixels: Int
    /// The most bytes the worker may hold at once for this job, the result aside: what a codec must keep whole.
    package var maxWorkingBytes: Int

    /// A job with the broker's default limits.
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

/// What a decode worker is about to do, as it follows from the header and the transform.
package struct DecodePlan: Hashable, Sendable {
    /// What the picture's header says.
    package var header: ImageHeader
    /// The result's size: what `Transform.plan` says for the header's.
    package var result: PixelGeometry
    /// The bytes the worker will hold beside the result.
    package var workingBytes: Int
    /// Of a part of a file: how far the picture has come, as a number that only grows (scans, passes or rows).
    package var stage: Int?

    /// A plan for a picture with this header.
    package init(header: ImageHeader, result: PixelGeometry, workingBytes: Int, stage: Int? = nil) {
        self.header = header
        self.result = result
        self.workingBytes = workingBytes
        self.stage = stage
    }

    /// The bytes of the buffer to be filled: of all frames that are wanted, or as many as the encoded picture can have.
    /// No product here overflows, within the bounds on sides and frames.
    package func outputBytes(_ transform: Transform, _ encoding: Encoding?) -> Int {
        encoding == nil
            ? result.bytes * transform.frames.count(of: header.frameCount) : Encoding.mostBytes(of: result)
    }
}

/// What has come of a job.
package struct DecodeResult: Equatable, Sendable {
    /// The bytes written, from the buffer's beginning on.
    package var bytes: Int
    /// The picture's placeholder, if it was wanted.
    package var placeholder: Placeholder?
    /// When the frames are shown; for jobs that decode all of them.
    package var timing: AnimationTiming?
    /// Whether the picture has a profile that could not be used, so that it was taken for sRGB.
    package var ignoredProfile = false

    /// A result of so many bytes.
    package init(bytes: Int) {
        self.bytes = bytes
    }
}

/// What the broker (or whoever started it) tells a decode worker.
package enum DecodeOrder: Equatable, Sendable {
    /// Begin a job; comes with the encoded bytes.
    case decode(DecodeJob)
    /// Go on with the job; comes with the memfd to fill.
    case output(job: Int)
    /// End the job: its result is not wanted.
    case refuse(job: Int)
}

/// What a decode worker reports.
package enum DecodeReport: Equatable, Sendable {
    /// Jobs can come, with what confines the worker; nil when it did not say. `build` changes whenever the code that
    /// decodes does.
    case ready(SandboxReport?, build: String? = nil)
    /// The job's header was read; unless the job only describes, `output` or `refuse` must follow.
    case header(job: Int, DecodePlan)
    /// The job has ended well: all pixels, or all encoded bytes (their count), are written.
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
