import CImageCodecs
import ImageDecoding

/// The samples of an AVIF sequence (ISO/IEC 14496-12, sections 8.3 to 8.7), found without decoding: of the first track
/// of colours, and of its alpha.
struct AVIFSequence: Equatable {
    /// The frames whose data is complete, their delays, and the repetitions.
    private(set) var animation = Animation()
    /// The ranges of the frames' alpha; empty without alpha.
    private(set) var alpha: [Range<Int>] = []
    private(set) var durationRuns = 0

    /// Reads the `moov` box in `bytes`; nil without one.
    init?(_ bytes: Span<UInt8>) {
        guard let movie = BoxCursor.first("moov", in: 0..<bytes.count, of: bytes) else { return nil }
        guard let tracks = Self.tracks(bytes, movie), let color = tracks.first(where: { $0.auxiliaryFor == 0 }) else {
            animation.fault = CODEC_DAMAGED
            return
        }
        read(bytes, color, alpha: tracks.first { $0.auxiliaryFor == color.identifier })
    }

    /// Returns the tracks with AV1 samples; nil if a box leaves the one around it.
    private static func tracks(_ bytes: Span<UInt8>, _ movie: Box) -> [AVIFTrack]? {
        var cursor = BoxCursor(movie.content)
        var tracks: [AVIFTrack] = []
        while let box = cursor.next(bytes) {
            guard box.named("trak", in: bytes) else { continue }
            guard let track = AVIFTrack(bytes, box) else { return nil }
            if track.hasSamples { tracks.append(track) }
        }
        return cursor.isCut ? nil : tracks
    }

    private mutating func read(_ bytes: Span<UInt8>, _ color: AVIFTrack, alpha track: AVIFTrack?) {
        (animation.width, animation.height) = (color.width, color.height)
        animation.loops = color.loops
        durationRuns = color.durationRuns(bytes)
        do {
            let frames = try color.samples(bytes)
            let alpha = try track?.samples(bytes)
            animation.announced = frames.count
            let delays = color.delays(bytes, count: frames.count)
            for (index, frame) in frames.enumerated() {
                guard alpha == nil || index < alpha!.count else { return animation.fault = CODEC_DAMAGED }
                guard frame.upperBound <= bytes.count, alpha?[index].upperBound ?? 0 <= bytes.count else {
                    return animation.fault = CODEC_TRUNCATED
                }
                animation.frames.append(
                    Animation.Frame(
                        x: 0, y: 0, width: color.width, height: color.height, encodedPixels: color.width * color.height,
                        delayMs: Animation.shown(delays[index]), disposal: .keep, isBlended: false, data: frame))
                if let alpha { self.alpha.append(alpha[index]) }
            }
        } catch {
            animation.fault = error.status
        }
    }
}

/// A track of an AVIF sequence: the places of its tables.
private struct AVIFTrack {
    /// A table that cannot be used.
    struct Fault: Error {
        let status: codec_status
    }

    private(set) var identifier = 0
    /// The track that this one belongs to as its alpha; 0 for none.
    private(set) var auxiliaryFor = 0
    private(set) var (width, height) = (0, 0)
    /// The number of times that it is shown; 0 for endless. Without an edit list it is endless, as in browsers.
    private(set) var loops = 0
    private var timescale = 0
    private var hasAV1 = false
    private var chunkOffsets, sampleSizes, chunkLengths, durations: Range<Int>?
    private var hasLongOffsets = false
    /// Whether it is an identified track of AV1 with samples.
    private(set) var hasSamples = false

    /// Reads a `trak` box; nil if a box leaves the one around it, or occurs twice.
    init?(_ bytes: Span<UInt8>, _ box: Box) {
        var duration: Int?
        var edits: Range<Int>?
        var pending = [box.content]
        // The boxes are unique, so each occurs in one place only.
        var seen: [StaticString] = []
        while let range = pending.popLast() {
            var cursor = BoxCursor(range)
            while let box = cursor.next(bytes) {
                guard let name = Self.names.first(where: { box.named($0, in: bytes) }) else { continue }
                if seen.contains(where: { box.named($0, in: bytes) }) { return nil }
                seen.append(name)
                if Self.containers.contains(where: { box.named($0, in: bytes) }) {
                    pending.append(box.content)
                    continue
                }
                guard let version = box.version(in: bytes), let fields = box.fields else { return nil }
                if box.named("tkhd", in: bytes) {
                    let (place, end) = version == 1 ? (16, 32) : (8, 20)
                    guard let identifier = Self.number(bytes, fields, place),
                        let across = Self.number(bytes, fields, end + 52),
                        let down = Self.number(bytes, fields, end + 56)
                    else { return nil }
                    self.identifier = identifier
                    (width, height) = (across >> 16, down >> 16)
                    let high = version == 1 ? Self.number(bytes, fields, end - 8) : 0
                    duration = Self.duration(high, Self.number(bytes, fields, end - 4))
                } else if box.named("mdhd", in: bytes) {
                    guard let units = Self.number(bytes, fields, version == 1 ? 16 : 8) else { return nil }
                    timescale = units
                } else if box.named("elst", in: bytes) {
                    edits = box.content
                } else if box.named("stsd", in: bytes) {
                    guard fields.count >= 4 else { return nil }
                    var entries = BoxCursor(fields.lowerBound + 4..<fields.upperBound)
                    while let entry = entries.next(bytes) { hasAV1 = hasAV1 || entry.named("av01", in: bytes) }
                } else if box.named("stco", in: bytes) || box.named("co64", in: bytes) {
                    if chunkOffsets != nil { return nil }
                    (chunkOffsets, hasLongOffsets) = (fields, box.named("co64", in: bytes))
                } else if box.named("stsc", in: bytes) {
                    chunkLengths = fields
                } else if box.named("stsz", in: bytes) {
                    sampleSizes = fields
                } else if box.named("stts", in: bytes) {
                    durations = fields
                }
            }
            if cursor.isCut { return nil }
        }
        if let reference = Self.auxiliary(bytes, box) { auxiliaryFor = reference }
        if let edits { loops = Self.loops(bytes, edits, of: duration) }
        let chunks = chunkOffsets.flatMap { Self.count(bytes, $0, of: hasLongOffsets ? 8 : 4) } ?? 0
        hasSamples = identifier != 0 && hasAV1 && chunks > 0
    }

    /// Reads the number of four bytes at `offset` in `fields`; nil if it leaves them.
    private static func number(_ bytes: Span<UInt8>, _ fields: Range<Int>, _ offset: Int) -> Int? {
        offset + 4 <= fields.count ? bytes.integer(at: fields.lowerBound + offset, bytes: 4, .big) : nil
    }

    private static let containers: [StaticString] = ["mdia", "minf", "stbl", "edts"]
    private static let names: [StaticString] =
        containers + ["tkhd", "mdhd", "elst", "stsd", "stco", "co64", "stsc", "stsz", "stts"]

    /// Reads the track that `auxl` in the `tref` boxes names; nil for none.
    private static func auxiliary(_ bytes: Span<UInt8>, _ track: Box) -> Int? {
        var reference: Int?
        var cursor = BoxCursor(track.content)
        while let box = cursor.next(bytes) {
            guard box.named("tref", in: bytes) else { continue }
            var kinds = BoxCursor(box.content)
            while let kind = kinds.next(bytes) {
                if kind.named("auxl", in: bytes), kind.content.count >= 4 {
                    reference = bytes.integer(at: kind.content.lowerBound, bytes: 4, .big)
                }
            }
        }
        return reference
    }

    /// Returns a duration, in two halves; nil for one that is not known, all ones.
    private static func duration(_ high: Int?, _ low: Int?) -> Int? {
        guard let high, let low, high < 1 << 31, !(high == 0 && low == 0xFFFF_FFFF) else { return nil }
        return high << 32 | low
    }

    /// Returns how often an edit list of one entry is shown during the track's `duration` (ISO/IEC 23008-12, section
    /// 9.6.1); 0 for endless.
    private static func loops(_ bytes: Span<UInt8>, _ list: Range<Int>, of duration: Int?) -> Int {
        let start = list.lowerBound
        guard list.count >= 12, let version = bytes.integer(at: start, bytes: 1, .big),
            bytes[start + 3] & 1 == 1
        else { return 1 }
        let size = version == 1 ? 8 : 4
        guard list.count >= 8 + size, bytes.integer(at: start + 4, bytes: 4, .big) == 1,
            let high = version == 1 ? bytes.integer(at: start + 8, bytes: 4, .big) : 0,
            let low = bytes.integer(at: start + 4 + size, bytes: 4, .big), let part = Self.duration(high, low), part > 0
        else { return 1 }
        guard let duration else { return 0 }
        return min(max(1, duration / part + (duration % part == 0 ? 0 : 1)), Int(UInt32.max))
    }

    /// Returns the ranges of the samples, which may leave the file.
    func samples(_ bytes: Span<UInt8>) throws(Fault) -> [Range<Int>] {
        let damage = Fault(status: CODEC_DAMAGED)
        guard let chunkOffsets, let sampleSizes, let chunkLengths, sampleSizes.count >= 8,
            let uniform = bytes.integer(at: sampleSizes.lowerBound, bytes: 4, .big)
        else { throw damage }
        let width = hasLongOffsets ? 8 : 4
        let (chunks, entries) = (Self.count(bytes, chunkOffsets, of: width), Self.count(bytes, chunkLengths, of: 12))
        let sizes = uniform == 0 ? Self.count(bytes, sampleSizes.dropFirst(4), of: 4) : 0
        guard let chunks, let entries, let sizes else { throw damage }
        var samples: [Range<Int>] = []
        var (entry, length) = (0, 0)
        for chunk in 0..<chunks {
            while entry < entries,
                let first = bytes.integer(at: chunkLengths.lowerBound + 4 + 12 * entry, bytes: 4, .big),
                first <= chunk + 1
            {
                // Entries name increasing chunks, from the first one on.
                guard first == chunk + 1 else { throw damage }
                length = bytes.integer(at: chunkLengths.lowerBound + 8 + 12 * entry, bytes: 4, .big) ?? 0
                entry += 1
            }
            guard length > 0 else { throw damage }
            guard samples.count + length <= CODEC_MAXIMUM_FRAMES else { throw Fault(status: CODEC_TOO_LARGE) }
            let place = chunkOffsets.lowerBound + 4 + width * chunk
            let high = hasLongOffsets ? bytes.integer(at: place, bytes: 4, .big) : 0
            guard let high, let low = bytes.integer(at: place + width - 4, bytes: 4, .big), high < 1 << 24 else {
                throw damage
            }
            var start = high << 32 | low
            for _ in 0..<length {
                let index = samples.count
                guard uniform > 0 || index < sizes else { throw damage }
                let size =
                    uniform > 0
                    ? uniform : bytes.integer(at: sampleSizes.lowerBound + 8 + 4 * index, bytes: 4, .big) ?? 0
                samples.append(start..<start + size)
                start += size
            }
        }
        return samples
    }

    /// Returns the number of runs of samples with one duration.
    func durationRuns(_ bytes: Span<UInt8>) -> Int { durations.flatMap { Self.count(bytes, $0, of: 8) } ?? 0 }

    /// Returns the delays of `count` frames in milliseconds, rounded. The last duration is that of all samples after
    /// it.
    func delays(_ bytes: Span<UInt8>, count: Int) -> [Int] {
        var delays: [Int] = []
        var delay = 0
        for run in 0..<durationRuns(bytes) where delays.count < count {
            let place = (durations?.lowerBound ?? 0) + 4 + 8 * run
            let length = bytes.integer(at: place, bytes: 4, .big) ?? 0
            let ticks = bytes.integer(at: place + 4, bytes: 4, .big) ?? 0
            delay = timescale == 0 ? 0 : min((ticks * 1000 + timescale / 2) / timescale, Int(UInt32.max))
            delays += repeatElement(delay, count: min(length, count - delays.count))
        }
        return delays + repeatElement(delay, count: count - delays.count)
    }

    /// Reads the number of a table's entries of `size` bytes each, which follow it; nil if it leaves the table.
    private static func count(_ bytes: Span<UInt8>, _ table: Range<Int>, of size: Int) -> Int? {
        guard let count = bytes.integer(at: table.lowerBound, bytes: 4, .big), table.count >= 4,
            count <= (table.count - 4) / size
        else { return nil }
        return count
    }
}
