package import JSONCoding

/// Which frames of an animation are wanted. A still picture has one.
public enum FrameSelection: Hashable, Sendable, CustomStringConvertible {
    /// The frame with this index, from 0 on.
    case one(Int)
    /// All of them, one behind the other.
    case all

    /// The highest index that can be asked for.
    public static let highestIndex = 65_534
    /// The most frames that are handed out at once: their description must fit into a frame of the protocol.
    public static let most = 10_000

    /// How many frames of an animation of `count` are wanted.
    public func count(of count: Int) -> Int { self == .all ? count : 1 }

    /// The index, or `all`.
    public var description: String {
        switch self {
        case .one(let index): "\(index)"
        case .all: "all"
        }
    }

    /// Writes member `name`.
    package func write(_ name: String, to writer: inout JSONWriter) {
        switch self {
        case .one(let index): writer.member(name, index)
        case .all: writer.member(name, "all")
        }
    }

    /// Reads member `field`; nil, and a note, when it is neither an index nor `all`.
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

/// When the frames of an animation are shown.
public struct AnimationTiming: Hashable, Sendable {
    /// For how long each frame is shown, in milliseconds.
    public var delaysMs: [Int]
    /// How often all of them are shown; 0 for ever.
    public var loops: Int

    /// The timing of as many frames as there are delays.
    public init(delaysMs: [Int], loops: Int) {
        self.delaysMs = delaysMs
        self.loops = loops
    }
}
