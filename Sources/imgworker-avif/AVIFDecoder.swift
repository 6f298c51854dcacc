import CAVIFDecoder
import IPCProtocol
import ImageDecoding
import WorkerProtocol

/// Decodes AVIF with libavif, which holds the whole image in its stored depth; of a sequence, the requested frames one
/// after the other.
struct AVIFDecoder: ImageDecoder {
    let header: StoredHeader
    let metadata: ImageMetadata
    let animation: Animation?

    /// The bytes of a copy of the file that was made for this decoder.
    private var copiedBytes = 0
    private let reader: CodecReader

    /// Reads the header of `source`, and counts the frames to be decoded for `selection`, hidden ones included: they
    /// may have at most `mostPixels` pixels.
    init(_ source: ImageSource, _ selection: FrameSelection = .one(0), mostPixels: Int = .max) throws(WireError) {
        let reader = unsafe try CodecReader(of: source, .avif, create: codec_avif_reader_create)
        self.reader = reader
        var header = unsafe try reader.header(codec_avif_reader_read_header)
        let work: AVIFWork
        if unsafe codec_avif_reader_is_sequence(reader.pointer) != 0 {
            let sequence = source.withSpan { AVIFSequence($0) }
            guard let sequence, sequence.animation.announced.map({ $0 == Int(header.frames) }) ?? true else {
                throw WireError(CODEC_DAMAGED, format: .avif)
            }
            var found = sequence.animation
            if source.toleratesDamage { found.endAtFault() }
            try Animation.check(selection, of: found, .avif)
            if sequence.animation.frames.isEmpty {
                throw WireError(sequence.animation.fault ?? CODEC_EMPTY, format: .avif)
            }
            animation = found
            work = try AVIFWork(sequence, selection, in: source) { index in
                unsafe codec_avif_reader_is_key(reader.pointer, UInt32(index)) != 0
            }
        } else {
            animation = nil
            let items = source.withSpan { AVIFItems($0) }
            guard let items else { throw WireError(CODEC_DAMAGED, format: .avif) }
            work = try AVIFWork(items, in: source)
            switch items.cellAlpha {
            case .none: break
            case .unsupported(let reason): throw WireError(CODEC_UNSUPPORTED, format: .avif, message: reason)
            case .each(let start, let meta, let isPremultiplied):
                try reader.check(
                    unsafe codec_avif_reader_add_alpha(
                        reader.pointer, UInt64(start), meta, meta.count, isPremultiplied ? 1 : 0))
                header.has_alpha = 1
            }
        }
        let pixels = unsafe Int(clamping: codec_avif_reader_pixels(reader.pointer))
        let (decoded, isTooLong) = pixels.multipliedReportingOverflow(by: work.frames)
        guard work.frames == 1 || !isTooLong && decoded <= mostPixels else {
            let need = "\(work.frames) frames of \(pixels) pixels to be decoded; \(mostPixels) pixels are allowed"
            throw WireError(.tooManyPixels, "The image takes \(need).")
        }
        unsafe codec_avif_reader_select(reader.pointer, UInt32(work.first), UInt32(work.wanted))
        header.held_bytes = unsafe codec_avif_reader_held_bytes(
            reader.pointer, UInt32(clamping: work.frames), UInt32(work.layout.sampleBytes),
            UInt32(work.layout.chromaOfFour))
        self.header = try StoredHeader(header)
        metadata = reader.metadata
    }

    /// Opens each thumbnail as the image of a copy of the file. Files above `mostCopied` bytes have none.
    static func previews(_ source: ImageSource, of image: any ImageDecoder, _ offer: (any ImageDecoder) -> Void) {
        let file = source.withSpan { ItemFile($0) }
        for thumbnail in file.thumbnails {
            guard let copy = file.copy(of: source, showing: thumbnail.identifier, most: mostCopied),
                var decoder = try? AVIFDecoder(ImageSource(copying: copy)), decoder.animation == nil,
                decoder.metadata.orientation == image.metadata.orientation
            else { continue }
            decoder.copiedBytes = copy.count
            offer(decoder)
        }
    }

    /// The most bytes of a file that is copied for its thumbnail, before memory is granted.
    private static let mostCopied = 8 << 20

    func workingBytes(at size: DecodedSize) -> Int {
        // A band of rows, and the band with the rows around it; of a sequence, the frames' places, here and in libavif.
        let geometry = header.geometry
        let notes = (animation?.count ?? 0) * 2 * MemoryLayout<Animation.Frame>.stride
        return copiedBytes + header.heldBytes + 2 * (RowBand.rows(of: geometry) + 4) * geometry.stride + notes
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        try reader.check(unsafe codec_avif_reader_start(reader.pointer, format.codecOrder))
        unsafe try reader.decodeRows(of: header.geometry, into: &sink, by: codec_avif_reader_read_rows)
    }
}

/// The frames of an AVIF that are to be decoded, counted before decoding.
private struct AVIFWork {
    /// The frame to start from, and the first requested one.
    var (first, wanted) = (0, 0)
    /// The number of frames to be decoded; those of an image's alpha and of a grid's cells count together as one,
    /// unless they have hidden frames or layers.
    var frames = 1
    /// The most bytes of a pixel that the data states, which the container may understate.
    var layout = AV1Layout()

    /// Counts the frames of a still image. Throws `too-many-pixels`.
    init(_ items: AVIFItems, in source: ImageSource) throws(WireError) {
        var progress = AV1Sample.Progress(units: AV1Sample.mostUnits)
        for pieces in items.items {
            progress.isReduced = false
            let sample = try Self.sample(pieces, in: source, &progress)
            frames += max(0, sample.frames - 1)
            layout.extend(to: sample.layout)
        }
    }

    /// Counts the frames of a sequence that lead to those in `selection`, which are present. A frame is decoded from
    /// the last one that refers to no other, both by its own data and as the container says (`isKey`). Throws
    /// `too-many-pixels`.
    init(
        _ sequence: AVIFSequence, _ selection: FrameSelection, in source: ImageSource, isKey: (Int) -> Bool
    ) throws(WireError) {
        let frames = sequence.animation.frames
        let selected = selection.indices(of: frames.count)
        wanted = selected.lowerBound
        let last = max(wanted, selected.upperBound - 1)
        // libavif adds up the durations before each frame anew, run by run.
        let steps = (last + 1) * (last + 1)
        guard sequence.durationRuns <= Self.mostSteps / steps else {
            throw WireError(CODEC_TOO_LARGE, format: .avif, message: "too many durations")
        }
        var color = AV1Sample.Progress(units: AV1Sample.mostUnits)
        var alpha = color
        self.frames = 0
        // After a sample that shows several frames, a decoder's next frame may be that of an earlier sample.
        var isAligned = true
        for index in 0...last {
            var samples = [try Self.sample([frames[index].data], in: source, &color)]
            if !sequence.alpha.isEmpty {
                samples.append(try Self.sample([sequence.alpha[index]], in: source, &alpha))
            }
            if index <= wanted, isAligned, samples.allSatisfy(\.startsWithKeyFrame), isKey(index) {
                (first, self.frames) = (index, 0)
            }
            for sample in samples { layout.extend(to: sample.layout) }
            self.frames += samples.reduce(1) { $0 + max(0, $1.frames - 1) }
            isAligned = isAligned && samples.allSatisfy(\.isSingle)
        }
    }

    /// The most steps of adding up durations: a few seconds.
    private static let mostSteps = 1 << 32

    private static func sample(
        _ pieces: [Range<Int>], in source: ImageSource, _ progress: inout AV1Sample.Progress
    ) throws(WireError) -> AV1Sample {
        if let sample = source.withSpan({ AV1Sample($0, pieces, &progress) }) { return sample }
        let most = "a sample has more than \(AV1Sample.mostFrames) frames, or too many units"
        throw WireError(CODEC_TOO_LARGE, format: .avif, message: most)
    }
}

extension DecodeProgram {
    /// AVIF, decoded by libavif with the codec that it was built with.
    static let avif = DecodeProgram(
        .avif,
        unsafe ImageCodec(
            .avif, library: codec_avif_version(), orientation: "irot, imir", hasFrames: true,
            details: { $0.withSpan { ItemFile($0).details($0) } },
            previews: { AVIFDecoder.previews($0, of: $1, $2) }
        ) {
            (source, job) throws(WireError) in
            // libavif decides whether a file is a sequence.
            return try AVIFDecoder(source, job.transform.frames, mostPixels: job.maxSourcePixels)
        }, samples: [smallAVIF], prepare: { codec_silence() })
}
