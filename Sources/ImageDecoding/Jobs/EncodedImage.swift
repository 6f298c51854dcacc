import IPCProtocol
import LinuxSystem
import SystemValues
import WorkerProtocol

/// An encoded image whose header is read and whose decoding is planned within its limits. Can be decoded once.
struct EncodedImage {
    /// The plan; its sizes are those after orientation is applied.
    let plan: DecodePlan

    private let planned: Transform.Plan
    /// The timing of the frames, if all of them are requested.
    private let timing: AnimationTiming?
    private let transform: Transform
    private let orientation: Orientation
    private let holder: DecoderHolder
    private let decodedSize: DecodedSize
    /// Nil if the result has the stored size.
    private let scaling: Scaling?
    /// The used part of the decoded image; nil for all of it.
    private let area: Crop?
    private let steps: StepSequence
    private let color: ColorConversion
    private let encoding: Encoding?
    private let wantsPlaceholder: Bool
    /// The decoder with which a job for the next frames may go on; nil where damage is accepted, or where no range was
    /// requested.
    private let opened: OpenedImage?
    /// Nil unless the job accepts damage.
    private let attempt: Attempt?
    private let blocks: [UInt8]
    /// The job of an image whose preview is decoded: without it, if the preview turns out to be damaged. Nil for the
    /// image itself.
    private let withoutPreview: Attempt?
    private let headerMicroseconds: Int

    /// A decoding of an image that may be damaged. The first one accepts no damage, so that a sound image has the same
    /// result as without this; only after its failure follows a second one, which decodes as much as possible.
    private struct Attempt {
        let source: ImageSource
        var job: DecodeJob
        let codecs: [ImageCodec]
        let conversions: ColorConversions
        /// The failure of the first one; nil for that itself.
        var failure: WireError?
    }

    /// Holds the decoder, so that its memory can be freed.
    private final class DecoderHolder {
        var decoder: (any ImageDecoder)?

        init(_ decoder: any ImageDecoder) { self.decoder = decoder }
    }

    var ignoresProfile: Bool { color.ignoresProfile }

    /// Reads the header of `source` and plans `job`. Allocates no memory proportional to the image's area. If the job's
    /// frames follow those that `earlier` has decoded, it goes on with that.
    init(
        _ source: ImageSource, for job: DecodeJob, _ codecs: [ImageCodec],
        conversions: ColorConversions = ColorConversions(), after earlier: OpenedImage? = nil
    ) throws(WireError) {
        var attempt = Attempt(source: source, job: job, codecs: codecs, conversions: conversions)
        guard job.transform.acceptsDamage, !source.isPart else {
            self = try EncodedImage(attempt, acceptsDamage: false, after: earlier)
            return
        }
        source.keep()
        do throws(WireError) {
            self = try EncodedImage(attempt, acceptsDamage: true)
        } catch {
            attempt.failure = error
            guard error.isDamage, let image = Self.second(attempt) else { throw error }
            self = image
        }
    }

    /// Plans the second attempt; nil if not even the header can be read.
    private static func second(_ attempt: Attempt) -> EncodedImage? {
        attempt.source.tolerateDamage()
        return try? EncodedImage(attempt, acceptsDamage: true)
    }

    private init(_ attempt: Attempt, acceptsDamage: Bool, after earlier: OpenedImage? = nil) throws(WireError) {
        self.attempt = acceptsDamage ? attempt : nil
        let (source, job) = (attempt.source, attempt.job)
        let begun = Instant.now
        let opened =
            if let earlier, earlier.goesOn(with: job) { earlier } else {
                try Self.open(source, for: job, attempt.codecs)
            }
        self.opened = !acceptsDamage && job.transform.frames.isRange ? opened : nil
        let format = opened.codec?.format ?? .pixels
        var decoder = opened.decoder
        let animation = decoder.animation
        timing = job.transform.frames.hasTiming ? animation?.timing ?? .still : nil
        let stored = decoder.header.geometry
        try stored.check(atMost: max(job.maxPixels, job.maxSourcePixels))
        let metadata = decoder.metadata
        let orientation = metadata.orientation
        var profile = metadata.profile
        let shown = orientation.turned(stored)
        var header = ImageHeader(format: format, geometry: shown, frameCount: decoder.frameCount)
        if job.transform.metadata.isEmpty {
            blocks = []
        } else {
            let description = ImageDescription(source, opened)
            header.facts = description.facts
            blocks = description.bytes(of: job.transform.metadata)
        }
        let requestedFrames = header.count(of: job.transform.frames, as: job.encoding)
        if animation == nil {
            let isFirst = job.transform.frames == .all && requestedFrames == 1
            try Animation.check(isFirst ? .one(0) : job.transform.frames, of: nil, format, count: header.frameCount)
        }
        let plan = try job.transform.checkedPlan(for: header, as: job.encoding)
        if job.transform.prefersPreview, animation == nil, !source.isPart, !source.toleratesDamage,
            let preview = Self.preview(source, opened, by: plan, orientation)
        {
            var own = attempt
            own.job.transform.prefersPreview = false
            withoutPreview = own
            (decoder, profile) = (preview, preview.metadata.profile)
        } else {
            withoutPreview = nil
        }
        let isReduced = !plan.isIdentity || plan.area != nil
        try stored.check(atMost: decoder.streams && isReduced ? job.maxSourcePixels : job.maxPixels)
        try plan.scaled.check(frames: requestedFrames, atMost: job.maxPixels)
        let steps = job.transform.edits?.steps ?? []
        try StepSequence.check(steps, from: plan.beforeSteps, frames: requestedFrames, atMost: job.maxPixels)
        // Compressed data can be a thousand times smaller, and decompression is most of the work.
        let inflated = decoder.header.inflatedBytes
        let (mostInflated, isUnbounded) = job.maxSourcePixels.multipliedReportingOverflow(
            by: PixelGeometry.bytesPerPixel)
        guard isUnbounded || inflated <= mostInflated else {
            let bytes = "has \(inflated) bytes after decompression; \(mostInflated) are allowed"
            throw WireError(.tooManyPixels, "The image \(bytes).")
        }

        var workingBytes = Self.baseBytes
        let storedArea = plan.area.map { orientation.stored($0, in: stored) }
        if let part = Self.renderedPart(of: plan, decoder, in: stored, isWhole: job.wantsPlaceholder) {
            decodedSize = DecodedSize(part, renderedAs: plan.scaled)
            (scaling, area) = (nil, nil)
        } else if plan.isIdentity {
            decodedSize = DecodedSize(full: stored)
            (scaling, area) = (nil, storedArea)
        } else {
            (decodedSize, scaling, area) = Self.scaling(
                by: plan, storedArea, orientation, decoder, isLight: job.transform.isLight)
        }
        self.orientation = orientation
        self.steps = StepSequence(
            job.transform.edits, plan.search, job.transform.pixelFormat, isTransparent: decoder.header.hasAlpha)
        workingBytes += self.steps.workingBytes(from: plan.scaled)
        workingBytes +=
            blocks.count + source.ownBytes + decoder.workingBytes(at: decodedSize) + (scaling?.workingBytes ?? 0)
        if orientation.swapsSides { workingBytes += plan.scaled.bytes }
        // Includes a profile that proves too long only after decompression.
        if profile != .none { workingBytes += 2 * ColorProfile.longest + ColorConversion.bytes }
        if let encoding = job.encoding {
            workingBytes += plan.result.bytes
            workingBytes +=
                requestedFrames > 1
                ? ImageEncoder.workingBytes(ofAnimation: plan.result, frames: requestedFrames)
                : ImageEncoder.workingBytes(encoding, plan.result)
        }
        if let withoutPreview, let whole = try? Self(withoutPreview, acceptsDamage: false).plan.workingBytes,
            whole <= job.maxWorkingBytes
        {
            // For the image itself, if the preview turns out to be damaged.
            workingBytes = max(workingBytes, whole)
        }
        guard workingBytes <= job.maxWorkingBytes else {
            let need = "takes \(workingBytes) bytes of memory; \(job.maxWorkingBytes) are allowed"
            throw WireError(.tooManyPixels, "Decoding the \(stored.width) × \(stored.height) pixels \(need).")
        }
        let stage = source.isPart ? try decoder.findStage() : nil
        holder = DecoderHolder(decoder)
        color = try attempt.conversions.conversion(profile, decoder.header.space, job.transform.pixelFormat.codecOrder)
        transform = job.transform
        encoding = job.encoding
        // It describes the whole image, and is the same for every request.
        wantsPlaceholder = job.wantsPlaceholder && attempt.failure == nil && withoutPreview == nil
        planned = plan
        headerMicroseconds = Instant.now.microseconds(since: begun)
        self.plan = DecodePlan(header: header, result: plan.result, workingBytes: workingBytes, stage: stage)
    }

    /// Opens the smallest preview of an image that is at least as large as the result; nil without one.
    private static func preview(
        _ source: ImageSource, _ opened: OpenedImage, by plan: Transform.Plan, _ orientation: Orientation
    ) -> PreviewDecoder? {
        guard let codec = opened.codec, !plan.isIdentity else { return nil }
        let image = opened.decoder
        let (full, result) = (image.header.geometry, orientation.turned(plan.scaled))
        let swaps = orientation.swapsSides
        // The sides of the part of the stored image that is scaled.
        let (width, height) = (swaps ? plan.crop.height : plan.crop.width, swaps ? plan.crop.width : plan.crop.height)
        // Less than a pixel may be missing, because the sides are rounded.
        let least = (
            Double(result.width) * Double(full.width) / width, Double(result.height) * Double(full.height) / height
        )
        source.keep()
        var smallest: (any ImageDecoder)?
        codec.previews(source, image) { preview in
            let size = preview.header.geometry
            guard PreviewDecoder.isSmaller(size, than: full), Double(size.width) > least.0 - 1,
                Double(size.height) > least.1 - 1, size.pixels < smallest?.header.geometry.pixels ?? .max
            else { return }
            smallest = preview
        }
        return smallest.flatMap { PreviewDecoder($0, of: image) }
    }

    /// Opens a decoder of the requested frames, and finds the frames of an animation. There is no codec of stored
    /// pixels.
    static func open(
        _ source: ImageSource, for job: DecodeJob, _ codecs: [ImageCodec]
    ) throws(WireError) -> OpenedImage {
        if let pixels = job.pixels { return OpenedImage(codec: nil, decoder: try PixelsDecoder(source, pixels)) }
        let codec = unsafe try codecs.sniffing(source.bytes.prefix(ImageFormat.sniffedBytes))
        guard codec.hasParts || !source.isPart else {
            throw WireError(.unsupportedFormat, "\(codec.format.name) cannot be decoded in parts.")
        }
        return OpenedImage(codec: codec, decoder: try codec.open(source, job))
    }

    /// The decoder with which a job for the next frames may go on, once these are decoded, if it holds at most
    /// `mostBytes`.
    func opened(holdingAtMost mostBytes: Int) -> OpenedImage? { plan.workingBytes <= mostBytes ? opened : nil }

    /// Decodes the image, or the requested frames one after the other, into `output`, which has room for the result's
    /// bytes. Throws `truncated`, `decode-failed`, `out-of-memory` and the like.
    func decode(into output: any ResultOutput) throws(WireError) -> DecodeResult {
        do throws(WireError) {
            var result = try decodeOnce(into: output)
            result.isPreview = withoutPreview != nil
            result.damage = attempt?.failure.map { String($0.message.prefix(DecodeResult.longestDamage / 4)) }
            return result
        } catch {
            guard error.isDamage else { throw error }
            // Without a single row it is an error as before.
            if let failure = attempt?.failure { throw failure }
            holder.decoder = nil
            // It needs no more than was granted.
            guard let image = try next(after: error), image.plan.result == plan.result,
                image.plan.workingBytes <= plan.workingBytes,
                image.plan.outputBytes(transform, encoding) == plan.outputBytes(transform, encoding)
            else { throw error }
            return try image.decode(into: output)
        }
    }

    /// Plans what follows damage: the image itself after its preview, else the second attempt.
    private func next(after failure: WireError) throws(WireError) -> EncodedImage? {
        if let whole = withoutPreview {
            return try EncodedImage(whole.source, for: whole.job, whole.codecs, conversions: whole.conversions)
        }
        guard var attempt else { return nil }
        attempt.failure = failure
        return Self.second(attempt)
    }

    private func decodeOnce(into output: any ResultOutput) throws(WireError) -> DecodeResult {
        let clock = DecodeClock(writingTo: output)
        var result = try clock.measure(\.codec) { () throws(WireError) in try decodeOnce(into: output, clock) }
        clock.add(headerMicroseconds, to: \.codec)
        result.times = clock.times
        if !blocks.isEmpty {
            try output.destination().write(blocks, at: result.bytes)
            result.bytes += blocks.count
        }
        return result
    }

    private func decodeOnce(into output: any ResultOutput, _ clock: DecodeClock) throws(WireError) -> DecodeResult {
        guard let decoder = holder.decoder else { throw WireError(.internal, "The decoder was freed.") }
        guard let encoding else {
            let frameBytes = plan.result.bytes(in: transform.pixelFormat)
            var result = try decode(with: decoder, to: .file(output), at: 0, clock)
            for index in 1..<max(1, transform.frames.count(of: plan.header.frameCount)) {
                let offset = index * frameBytes
                result.bytes += try decode(with: decoder, to: .file(output), at: offset, isFirst: false, clock).bytes
            }
            result.timing = timing
            return result
        }
        let raster = try PixelMemory(count: plan.result.bytes)
        var result = try decode(with: decoder, to: .memory(raster), at: 0, clock)
        let encoder = ImageEncoder(
            encoding: encoding, geometry: plan.result, pixelFormat: transform.pixelFormat, alpha: transform.alpha,
            hasAlpha: steps.isTransparent)
        let file = try output.destination()
        result.bytes = try clock.measure(\.encode) { () throws(WireError) in
            guard let timing, timing.delaysMs.count > 1 else { return try encoder.encode(raster, to: file) }
            var isFirst = true
            return try encoder.encodeAnimation(
                timing, in: raster, to: file, mostBytes: plan.outputBytes(transform, encoding) - blocks.count
            ) { () throws(WireError) in
                if !isFirst { _ = try decode(with: decoder, to: .memory(raster), at: 0, isFirst: false, clock) }
                isFirst = false
            }
        }
        return result
    }

    /// Decodes the image, or the next requested frame, to `offset` in `output`. The placeholder is made of the first
    /// frame.
    private func decode(
        with decoder: any ImageDecoder, to output: PixelStore, at offset: Int, isFirst: Bool = true,
        _ clock: DecodeClock
    ) throws(WireError) -> DecodeResult {
        let hasAlpha = decoder.header.hasAlpha
        // The steps take straight alpha.
        let alpha = steps.takesStraightAlpha ? .straight : transform.alpha
        let premultiplies = transform.alpha == .premultiplied
        let packing = PixelPacking(transform)
        var raster = steps.needsRaster ? try Raster(planned.scaled) : nil
        let writer = try RowWriter(
            orientation.turned(planned.scaled), orientation: orientation,
            premultiplies: premultiplies && raster == nil && (scaling == nil || alpha == .straight)
                && steps.isTransparentAfterColors,
            colors: steps.colors, packing: raster == nil ? packing : nil,
            output: raster.map { .memory($0.memory) } ?? output,
            at: raster == nil ? offset : 0)
        let grid =
            wantsPlaceholder && isFirst ? PlaceholderGrid(decodedSize.geometry, order: transform.pixelFormat) : nil
        let sink: any RowSink =
            if let scaling {
                TimedScaling(clock, try scaling.sink(for: writer, hasAlpha: hasAlpha, alpha: alpha))
            } else { writer }
        try decode(with: decoder, into: sink, sampling: grid)
        if raster != nil {
            try clock.measure(\.steps) { () throws(WireError) in
                try steps.apply(to: &raster!)
                var writer = try RowWriter(
                    plan.result, orientation: .upright, premultiplies: premultiplies && steps.isTransparent,
                    packing: packing, output: output, at: offset)
                try raster?.write(to: &writer)
            }
        }
        var result = DecodeResult(bytes: plan.result.bytes(in: transform.pixelFormat))
        result.placeholder = grid?.placeholder(orientation)
        result.ignoredProfile = ignoresProfile
        return result
    }

    /// Decodes the image into `sink`, by way of the filters that take rows as they are stored.
    private func decode(
        with decoder: any ImageDecoder, into sink: any RowSink, sampling grid: PlaceholderGrid?
    ) throws(WireError) {
        var (sink, size) = (sink, decodedSize)
        if let area {
            // The placeholder is that of the whole image.
            if grid == nil, decoder.skipsRows { size.rows = area.y..<area.y + area.height }
            sink = RowCropper(area, of: size.geometry, from: size.rows.lowerBound, next: sink)
        }
        if let grid {
            sink = PlaceholderSampler(
                grid: grid, geometry: size.geometry, hasAlpha: decoder.header.hasAlpha, next: sink)
        }
        if let conversion = color.handle { sink = ColorConverter(conversion: conversion, next: sink) }
        try decoder.decode(transform.pixelFormat, at: size, into: &sink)
    }

    /// The bytes that a decoder holds for an image of any size: its tables, a window of compressed data, pages of the
    /// source.
    static let baseBytes = 4 << 20

    /// Returns the part that a decoder renders as the result, without a filter; nil if it cannot, or if it `isWhole`
    /// because of the placeholder and the part is not.
    private static func renderedPart(
        of plan: Transform.Plan, _ decoder: any ImageDecoder, in stored: PixelGeometry, isWhole: Bool
    ) -> Transform.Plan.Crop? {
        guard decoder.renders else { return nil }
        var part = plan.crop
        part.x += Double(plan.area?.x ?? 0)
        part.y += Double(plan.area?.y ?? 0)
        let isAll = (part.width, part.height) == (Double(stored.width), Double(stored.height))
        return isWhole && !isAll ? nil : part
    }

    /// Returns the size at which the codec decodes and the filter that follows, in stored coordinates; no filter if
    /// that is the result. The codec scales down only to twice the result's sides, because its box filter aliases and
    /// the Lanczos filter does not. The part of the decoded image that the filter takes is nil for all of it.
    private static func scaling(
        by plan: Transform.Plan, _ area: Crop?, _ orientation: Orientation, _ decoder: any ImageDecoder, isLight: Bool
    ) -> (DecodedSize, Scaling?, Crop?) {
        let result = orientation.turned(plan.scaled)
        var crop = plan.crop
        let whole = plan.area.flatMap { PixelGeometry(width: $0.width, height: $0.height) }
        crop = orientation.stored(crop, in: whole ?? orientation.turned(decoder.header.geometry))
        let margin = decoder.storesSizes ? 1.0 : 2
        let share = max(margin * Double(result.width) / crop.width, margin * Double(result.height) / crop.height)
        // Codecs average sRGB values, not linear light.
        let isFull = isLight && !decoder.storesSizes
        let size = isFull ? DecodedSize(full: decoder.header.geometry) : decoder.size(keeping: share)
        let used = area.map { size.part($0) }
        crop.x = (crop.x + Double(area?.x ?? 0)) * size.horizontal - Double(used?.x ?? 0)
        crop.width *= size.horizontal
        crop.y = (crop.y + Double(area?.y ?? 0)) * size.vertical - Double(used?.y ?? 0)
        crop.height *= size.vertical
        let source = used.flatMap { PixelGeometry(width: $0.width, height: $0.height) } ?? size.geometry
        // The sides of the crop are products.
        let cropped = max(Double(source.width) - crop.width, Double(source.height) - crop.height)
        if source == result, cropped < 0.001 { return (size, nil, used) }
        return (size, Scaling(source: source, result: result, crop: crop, isLight: isLight), used)
    }
}
