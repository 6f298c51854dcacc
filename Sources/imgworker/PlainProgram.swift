import CImageCodecs
import IPCProtocol
import ImageDecoding
import WorkerProtocol

extension DecodeProgram {
    /// The formats that every broker decodes: the functions of a library in CImageCodecs, a decoder in a file of
    /// Formats (of Animation for GIF), and an entry here.
    static let plain = DecodeProgram(
        .plain,
        unsafe ImageCodec(
            .jpeg, library: codec_jpeg_version(), hasParts: true, details: ImageDetails.plain(.jpeg),
            previews: { source, _, offer in JPEGPreviews(source).open(offer) }
        ) { (source, _) throws(WireError) in
            try JPEGDecoder(source)
        },
        unsafe ImageCodec(
            .png, library: codec_png_version(), hasFrames: true, hasParts: true, details: ImageDetails.plain(.png)
        ) { (source, job) throws(WireError) in try ImageCodec.openPlain(.png, source, job) },
        unsafe ImageCodec(
            .webp, library: codec_webp_version(), hasFrames: true, hasParts: true,
            details: ImageDetails.plain(.webp)
        ) { (source, job) throws(WireError) in try ImageCodec.openPlain(.webp, source, job) },
        unsafe ImageCodec(
            .gif, library: codec_gif_version(), orientation: "none", hasFrames: true,
            details: ImageDetails.plain(.gif)
        ) { (source, job) throws(WireError) in try ImageCodec.openPlain(.gif, source, job) }, samples: WarmUpSamples.all
    )
}

extension ImageCodec {
    /// Opens a decoder of the frames that `job` requests of an animation, or of a still image: a PNG or WebP.
    fileprivate static func openPlain(
        _ format: ImageFormat, _ source: ImageSource, _ job: DecodeJob
    ) throws(WireError) -> any ImageDecoder {
        let animation = source.animation(format)
        guard animation == nil || !source.isPart else {
            throw WireError(.unsupportedFormat, "An animation cannot be decoded in parts.")
        }
        if animation != nil { try Animation.check(job.transform.frames, of: animation, format) }
        if format == .gif, let frame = animation?.frameAlone(job.transform.frames) {
            return try GIFFrameDecoder(source, frame, of: animation)
        }
        if let animation, !animation.frames.isEmpty {
            return try AnimationDecoder(
                animation, of: source, format, job.transform.frames, mostPixels: job.maxSourcePixels,
                acceptsDamage: job.transform.acceptsDamage)
        }
        // The still image that precedes the frames of a PNG can be shown without them. A GIF without frames has a
        // fault.
        if let fault = animation?.fault, format != .png { throw WireError(fault, format: format) }
        if format != .png { return try WebPDecoder(source) }
        var still = try PNGDecoder(source)
        still.animation = animation
        return still
    }
}
