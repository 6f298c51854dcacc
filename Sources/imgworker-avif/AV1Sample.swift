/// The frames in a sample of AV1, counted in the headers of its open bitstream units (AV1 specification, section 5.3)
/// without decoding them. A decoder takes time and memory for each frame, and shows only one of a sample.
struct AV1Sample: Equatable {
    private(set) var frames = 0
    private(set) var shownFrames = 0
    /// Whether a sequence header and a key frame that is shown come first, so that no earlier sample is needed.
    private(set) var startsWithKeyFrame = false
    /// Whether a unit belongs to a spatial layer other than the first.
    private(set) var hasLayers = false
    /// The most bytes of a pixel that the sequence headers state.
    private(set) var layout = AV1Layout()

    /// The most frames in a sample. Besides the one that is shown, encoders store up to eight, one for each reference
    /// slot; an image has at most four layers.
    static let mostFrames = 16

    /// The units that may still be read, and the last sequence header's promise for the frames that follow.
    struct Progress: Equatable {
        var units: Int
        /// Whether frame headers are reduced: each frame is a key frame that is shown.
        var isReduced = false
    }

    /// The most units in all samples of a file.
    static let mostUnits = 1 << 24

    /// Reads the sample that consists of `pieces` of `bytes`, each within them. Bytes that form no unit end the sample,
    /// as in a decoder. Returns nil if there are too many frames or units.
    init?(_ bytes: Span<UInt8>, _ pieces: [Range<Int>], _ progress: inout Progress) {
        var cursor = PieceCursor(pieces)
        var hasSequenceHeader = false
        while let header = cursor.next(bytes) {
            if progress.units == 0 { return nil }
            progress.units -= 1
            if header & 4 != 0 {
                guard let layer = cursor.next(bytes) else { return }
                if layer & 0x18 != 0 { hasLayers = true }
            }
            var length = cursor.rest
            if header & 2 != 0 {
                guard let number = cursor.nextNumber(bytes), number <= cursor.rest else { return }
                length = number
            }
            var unread = length
            switch header >> 3 & 15 {
            case 1:
                var start: [UInt8] = []
                while start.count < min(length, AV1Layout.longestHeader), let byte = cursor.next(bytes) {
                    start.append(byte)
                }
                guard let first = start.first else { return }
                unread -= start.count
                (hasSequenceHeader, progress.isReduced) = (true, first & 8 != 0)
                if let stated = AV1Layout(sequenceHeader: start) { layout.extend(to: stated) }
            case 3, 6, 7:
                // A frame header, alone or with its tiles. A redundant one is decoded where no other precedes it.
                guard length > 0, let first = cursor.next(bytes) else { return }
                unread -= 1
                let isKey = progress.isReduced || first & 0xF0 == 0x10
                let isShown = isKey || first & 0x80 != 0 || first & 0x10 != 0
                if frames == 0 { startsWithKeyFrame = hasSequenceHeader && isKey }
                frames += 1
                if isShown { shownFrames += 1 }
                if frames > Self.mostFrames { return nil }
            default: break
            }
            cursor.skip(unread)
        }
    }

    /// Whether a decoder that has shown its frame has no other one left to show.
    var isSingle: Bool { shownFrames == 1 && !hasLayers }
}

/// Reads pieces of a file as if they followed one another.
private struct PieceCursor {
    private let pieces: [Range<Int>]
    private var piece = 0
    private var position: Int
    private(set) var rest: Int

    init(_ pieces: [Range<Int>]) {
        self.pieces = pieces
        position = pieces.first?.lowerBound ?? 0
        // Pieces may overlap, so their sum is not bounded by the file.
        rest = pieces.reduce(0) { sum, piece in
            let (sum, isLong) = sum.addingReportingOverflow(piece.count)
            return isLong ? Int.max : sum
        }
    }

    /// Reads a byte; nil at the end.
    mutating func next(_ bytes: Span<UInt8>) -> UInt8? {
        guard rest > 0 else { return nil }
        advance()
        defer { (position, rest) = (position + 1, rest - 1) }
        return bytes[position]
    }

    /// Reads a number of up to eight bytes, seven bits in each (leb128); nil if it is longer or at the end.
    mutating func nextNumber(_ bytes: Span<UInt8>) -> Int? {
        var number = 0
        for index in 0..<8 {
            guard let byte = next(bytes) else { return nil }
            number |= Int(byte & 0x7F) << (7 * index)
            if byte & 0x80 == 0 { return number }
        }
        return nil
    }

    /// Skips `count` bytes, at most `rest`.
    mutating func skip(_ count: Int) {
        var count = count
        while count > 0 {
            advance()
            let step = min(count, pieces[piece].upperBound - position)
            (position, rest, count) = (position + step, rest - step, count - step)
        }
    }

    /// Moves on to the next piece that is not empty, if this one is at its end.
    private mutating func advance() {
        while position == pieces[piece].upperBound {
            piece += 1
            position = pieces[piece].lowerBound
        }
    }
}
