package import JSONCoding

/// The requested frames of an animation. A still image has one frame.
public enum FrameSelection: Hashable, Sendable, CustomStringConvertible {
    /// The frame with this index, counted from 0.
    case one(Int)
    /// All frames, one after the other.
    case all

    /// The highest index that can be requested.
    public static let highestIndex = 65_534
    /// The maximum number of frames in one reply: their description must fit into a frame of the protocol.
    public static let most = 10_000

    /// Returns the number of selected frames of an animation with `count` frames.
    public func count(of count: Int) -> Int { self == .all ? count : 1 }

    /// The index, or `all`.
    public var description: String {
        switch self {
        case .one(let index): "\(index)"
        case .all: "all"
        }
    }

}

extension Fields {
    /// The requested frames, an index or the word `all`, written only when they differ from `usual`.
    package mutating func frames(
        _ name: StaticString, _ value: inout FrameSelection, omitting usual: FrameSelection? = nil
    ) {
        guard isReading else {
            if value == usual { return }
            switch value {
            case .one(let index): constant(name, index)
            case .all: constant(name, "all")
            }
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
}
