package import JSONCoding

/// The requested frames of an animation. A still image has one frame.
public enum FrameSelection: Hashable, Sendable, CustomStringConvertible {
    /// The frame with this index, counted from 0.
    case one(Int)
    /// All frames, one after the other.
    case all
    /// Some successive frames, one after the other: fewer at the end of the animation.
    case range(FrameRange)

    /// The highest index that can be requested.
    public static let highestIndex = 65_534
    /// The maximum number of frames in one reply: their description must fit into a frame of the protocol.
    public static let most = 10_000

    /// Returns the number of selected frames of an animation with `count` frames.
    public func count(of count: Int) -> Int {
        switch self {
        case .one: 1
        case .all: count
        case .range(let range): max(0, min(range.count, count - range.first))
        }
    }

    /// The index of the first selected frame.
    package var first: Int {
        switch self {
        case .one(let index): index
        case .all: 0
        case .range(let range): range.first
        }
    }

    /// Returns the indices of the selected frames of an animation with `count` frames.
    package func indices(of count: Int) -> Range<Int> { first..<first + self.count(of: count) }

    /// Whether the result lists its frames with their times, however many there are.
    package var hasTiming: Bool { if case .one = self { false } else { true } }

    /// Whether the frames are a part of an animation.
    package var isRange: Bool { if case .range = self { true } else { false } }

    /// The index, `all`, or the first index and the number of frames: `24+12`.
    public var description: String {
        switch self {
        case .one(let index): "\(index)"
        case .all: "all"
        case .range(let range): "\(range.first)+\(range.count)"
        }
    }
}

/// Successive frames of an animation. `AnimationFrames` divides an animation into such parts.
public struct FrameRange: Hashable, Sendable {
    private var narrowFirst: UInt16
    private var narrowCount: UInt16

    /// The index of the first frame, 0 … 65,534.
    public var first: Int { Int(narrowFirst) }
    /// The number of frames, 1 … 10,000.
    public var count: Int { Int(narrowCount) }

    /// Creates a range; numbers that are out of their range become the nearest that are not.
    public init(first: Int, count: Int) {
        narrowFirst = UInt16(min(max(first, 0), FrameSelection.highestIndex))
        narrowCount = UInt16(min(max(count, 1), FrameSelection.most))
    }
}

extension FrameRange: FieldList {
    package static var blank: FrameRange { FrameRange(first: 0, count: 1) }

    package mutating func list(_ fields: inout Fields) {
        var (first, count) = (first, count)
        fields.integer("first", &first, in: 0...FrameSelection.highestIndex)
        fields.integer("count", &count, in: 1...FrameSelection.most)
        self = FrameRange(first: first, count: count)
    }
}

extension Fields {
    /// The requested frames: an index or the word `all`, written only when they differ from `usual`, or the object
    /// `frames`.
    package mutating func frames(
        _ name: StaticString, _ value: inout FrameSelection, omitting usual: FrameSelection? = nil
    ) {
        guard isReading else {
            if value == usual { return }
            switch value {
            case .one(let index): constant(name, index)
            case .all: constant(name, "all")
            case .range(var range): object("frames", &range)
            }
            return
        }
        var range: FrameRange?
        object("frames", &range)
        if let range {
            if has(name) { note("\(name)", expected: "absent: frames states a range") }
            value = .range(range)
            return
        }
        if hasString(name) {
            var word = ""
            string(name, &word)
            value = .all
            if word != "all" {
                note("\(name)", expected: "an integer from 0 to \(FrameSelection.highestIndex) or \"all\"")
            }
        } else {
            var index = 0
            integer(name, &index, in: 0...FrameSelection.highestIndex, usual == nil ? .required : .optional)
            if has(name) { value = .one(index) }
        }
    }
}

/// The timing of an animation.
public struct AnimationTiming: Hashable, Sendable {
    /// The duration of each frame, in milliseconds.
    public var delaysMs: [Int]
    /// The number of times that the animation is played; 0: for ever.
    public var loops: Int

    /// Creates the timing of an animation with one frame per delay.
    public init(delaysMs: [Int], loops: Int) {
        self.delaysMs = delaysMs
        self.loops = loops
    }

    package func part(_ frames: FrameSelection) -> AnimationTiming {
        AnimationTiming(
            delaysMs: Array(delaysMs[frames.indices(of: delaysMs.count).clamped(to: delaysMs.indices)]), loops: loops)
    }
}
