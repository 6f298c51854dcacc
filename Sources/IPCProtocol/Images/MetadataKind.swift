package import JSONCoding

/// A block of metadata in an encoded image.
public enum MetadataKind: String, CaseIterable, Hashable, Sendable {
    /// The EXIF block: a TIFF structure without a prefix.
    case exif
    /// The XMP packet.
    case xmp
    /// The ICC profile of the colours, as it is in the file.
    case icc

    /// The maximum length of a block that is delivered, in bytes.
    public static let longest = 1 << 20

    var bit: UInt8 {
        switch self {
        case .exif: 1
        case .xmp: 2
        case .icc: 4
        }
    }
}

/// Kinds of metadata blocks, in the order `exif`, `xmp`, `icc`.
public struct MetadataKinds: Hashable, Sendable, ExpressibleByArrayLiteral {
    private var bits: UInt8 = 0

    /// No kind.
    public init() {}

    /// Creates a set of kinds.
    public init(arrayLiteral kinds: MetadataKind...) { for kind in kinds { insert(kind) } }

    /// All kinds.
    public static var all: MetadataKinds { [.exif, .xmp, .icc] }

    /// Whether it has no kind.
    public var isEmpty: Bool { bits == 0 }
    /// Returns whether it has `kind`.
    public func contains(_ kind: MetadataKind) -> Bool { bits & kind.bit != 0 }
    /// Adds a kind.
    public mutating func insert(_ kind: MetadataKind) { bits |= kind.bit }
    /// The kinds in their order.
    public var kinds: [MetadataKind] { bits == 0 ? [] : MetadataKind.allCases.filter(contains) }
}

/// The lengths of an image's metadata blocks, in bytes; nil for a block that the file does not have.
public struct MetadataLengths: Hashable, Sendable {
    public var exif: Int?
    public var xmp: Int?
    public var icc: Int?

    /// Creates lengths.
    public init(exif: Int? = nil, xmp: Int? = nil, icc: Int? = nil) {
        (self.exif, self.xmp, self.icc) = (exif, xmp, icc)
    }

    /// The length of a block.
    public subscript(kind: MetadataKind) -> Int? {
        get {
            switch kind {
            case .exif: exif
            case .xmp: xmp
            case .icc: icc
            }
        }
        set {
            switch kind {
            case .exif: exif = newValue
            case .xmp: xmp = newValue
            case .icc: icc = newValue
            }
        }
    }

    /// The length of a block that is delivered; nil for one that is missing or longer than `MetadataKind.longest`.
    package func delivered(_ kind: MetadataKind) -> Int? {
        self[kind].flatMap { $0 <= MetadataKind.longest ? $0 : nil }
    }

    /// The bytes of all blocks of these kinds that are delivered.
    package func delivered(_ kinds: MetadataKinds) -> Int { kinds.kinds.reduce(0) { $0 + (delivered($1) ?? 0) } }
}

/// Properties of an image from its header and metadata, besides those of `ImageHeader`.
public struct ImageFacts: Hashable, Sendable {
    /// The longest name of a profile, in bytes.
    package static let longestProfile = 255

    /// The value of EXIF's tag Orientation that was applied to the size: 1 … 8.
    public var orientation = 1
    /// The dots per inch in a row and in a column, rounded; nil if the file states none.
    public var density: Density?
    /// The name of the ICC profile; nil without one, or without a name.
    public var profile: String?
    /// The bits of a channel; nil if the decoder does not know it.
    public var bitDepth: Int?
    /// Whether the file has an alpha channel, or a transparent colour.
    public var hasAlpha = false
    /// The number of times that the animation is played, 0 for endless; nil for a still image.
    public var loops: Int?
    /// The lengths of the metadata blocks.
    public var metadata = MetadataLengths()

    /// A resolution.
    public struct Density: Hashable, Sendable {
        /// The dots per inch in a row.
        public var x: Int
        /// The dots per inch in a column.
        public var y: Int

        /// Creates a resolution.
        public init(x: Int, y: Int) { (self.x, self.y) = (x, y) }
    }

    /// Creates the facts of an upright image without metadata.
    public init() {}
}

extension MetadataLengths: FieldList {
    package static var blank: MetadataLengths { MetadataLengths() }

    package mutating func list(_ fields: inout Fields) {
        let range = 0...JSONReader.maximumInteger
        fields.integer("exif", &exif, in: range)
        fields.integer("xmp", &xmp, in: range)
        fields.integer("icc", &icc, in: range)
    }
}

extension ImageFacts.Density: FieldList {
    package static var blank: ImageFacts.Density { ImageFacts.Density(x: 1, y: 1) }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("x", &x, in: 1...Int(Int32.max))
        fields.integer("y", &y, in: 1...Int(Int32.max))
    }
}

extension ImageFacts: InitialFieldList {
    /// The facts for the broker.
    package mutating func list(_ fields: inout Fields) {
        listShown(&fields)
        fields.integer("loops", &loops, in: 0...JSONReader.maximumInteger)
        if fields.isReading || metadata != MetadataLengths() {
            fields.object("lengths", fields.isReading ? .optional : .required) { metadata.list(&$0) }
        }
    }

    /// Those that have the same form in every message.
    mutating func listShown(_ fields: inout Fields) {
        fields.integer("orientation", &orientation, in: 1...8, .optional)
        fields.object("density", &density)
        fields.string("profile", &profile, most: Self.longestProfile)
        fields.integer("bitDepth", &bitDepth, in: 1...64)
        fields.boolean("hasAlpha", &hasAlpha, .optional)
    }
}

extension Fields {
    /// A list of kinds of metadata, absent when it is empty.
    package mutating func metadataKinds(_ name: StaticString, _ value: inout MetadataKinds) {
        var names = value.kinds.map(\.rawValue)
        if !isReading, names.isEmpty { return }
        strings(name, &names, most: 16, bytes: 255, .optional)
        guard isReading else { return }
        value = []
        for text in names {
            guard let kind = MetadataKind(rawValue: text) else {
                return note("\(name)", expected: "an array of \"exif\", \"xmp\", \"icc\"")
            }
            value.insert(kind)
        }
    }
}
