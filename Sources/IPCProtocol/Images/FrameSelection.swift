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

    /// Writes the member `name`.
    package func write(_ name: String, to writer: inout JSONWriter) {
        switch self {
        case .one(let index): writer.member(name, index)
        case .all: writer.member(name, "all")
        }
    }

    /// Reads the member `field`; returns nil and notes the problem when it is neither an index nor `all`.
    package init?(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        if reader.nextIsString {
            guard try reader.string(field) == "all" else {
                reader.note(field, expected: "an integer from 0 to \(Self.highestIndex) or \"all\"")
                return nil
            }
            self = .all
        } else {
            guard let index = try reader.integer(field, in: 0...Self.highestIndex) else { return nil }
            self = .one(index)
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
