import IPCProtocol

/// A part of a variant: a flag of `get` and `ctl prefetch`, and a key of a preset in the configuration file.
struct VariantOption: Sendable {
    /// The key; with "--" before it, the flag.
    let name: String
    let help: FlagHelp
    /// Applies a value, and throws `UsageError`.
    private let take: @Sendable (inout GetOptions.Variant, GivenValue) throws -> Void

    private init(
        _ name: String, _ value: String?, _ explanation: String, choices: [String] = [],
        take: @escaping @Sendable (inout GetOptions.Variant, GivenValue) throws -> Void
    ) {
        (self.name, self.take) = (name, take)
        help = FlagHelp("--" + name + (value.map { " " + $0 } ?? ""), explanation, choices: choices)
    }

    func apply(_ variant: inout GetOptions.Variant, _ value: GivenValue) throws(UsageError) {
        do { try take(&variant, value) } catch { throw UsageError(error) }
    }

    var flag: String { "--" + name }
    /// What the help calls the value; nil for a switch.
    var value: String? { help.value }
    /// The explanation without its further lines.
    var summary: String {
        let line = help.explanation.prefix { $0 != "\n" }
        return line.hasSuffix(":") ? line.dropLast() + " (imgbroker-get(1) lists them)" : String(line)
    }
    var isRepeatable: Bool { name == "step" }

    static let all: [VariantOption] = [
        VariantOption("width", "N", "fit the image into this width") {
            $0.width = try $1.number(in: 1...PixelGeometry.maximumSide)
        },
        VariantOption("height", "N", "and into this height") {
            $0.height = try $1.number(in: 1...PixelGeometry.maximumSide)
        },
        VariantOption(
            "fit", "FIT", "the way: inside (default), contain, cover or fill",
            choices: Transform.Fit.allCases.map(\.rawValue)
        ) { $0.fit = try $1.choice() },
        VariantOption(
            "position", "P",
            """
            the part that cover keeps, and the place of an image on the canvas of the step pad:
                center (default)  top  bottom  left  right
                top-left  top-right  bottom-left  bottom-right
                X,Y        a focal point in shares of the sides, 0 to 1
                entropy    with cover: the part with the most detail
                attention  with cover: the most striking part
            """
        ) { $0.position = try $1.position() },
        VariantOption("scale-down", nil, "scale a result above the broker's scale-down-limit down to it") {
            $0.scaleDown = try $1.isOn()
        },
        VariantOption(
            "linear", nil,
            "scale linear light instead of sRGB values: slower, and fine bright detail keeps its brightness"
        ) { $0.linear = try $1.isOn() },
        VariantOption("crop", "X,Y,W,H", "use this part of the image only, in its own pixels; scaled afterwards") {
            $0.crop = try $1.crop()
        },
        VariantOption(
            "step", "STEP",
            """
            a step that follows scaling (repeatable, up to 16, in order): a name, and after a colon its fields with commas between them:
                rotate:degrees=90        flip:axis=horizontal
                blur:sigma=4             sharpen:sigma=1,amount=0.5
                grayscale  sepia  invert                (amount=0...1)
                brightness:amount=1.2  contrast  saturate  (0...10)
                hue-rotate:degrees=90    opacity:amount=0.5
                tint:color=#ff000080     background:color=#ffffff
                round:radius=12          round:circle
                pad:width=300,height=200,color=#00000000
            """
        ) { variant, value in
            if variant.steps.count == Step.most { throw UsageError("\(value.name) can be given \(Step.most) times") }
            variant.steps.append(try value.step())
        },
        VariantOption(
            "pixel-format", "F", "the bytes of a pixel, with --as pixels: rgba8 (default), bgra8, rgb8 or gray8",
            choices: PixelFormat.allCases.map(\.rawValue)
        ) { $0.pixelFormat = try $1.choice() },
        VariantOption(
            "alpha", "MODE", "of pixels: premultiplied (default) or straight",
            choices: [AlphaMode.premultiplied, .straight].map(\.rawValue)
        ) { $0.alpha = try $1.alpha("premultiplied or straight") },
        VariantOption(
            "background", "COLOR", "the colour under transparent pixels of rgb8 and gray8 (default: #ffffff)"
        ) { $0.background = try $1.opaqueColor() },
        VariantOption("frame", "N", "the frame of an animation, from 0 on (default: 0)") {
            $0.frames = .one(try $1.number(in: 0...FrameSelection.highestIndex))
        },
        VariantOption("frames", "FIRST+COUNT", "successive frames of an animation, with --as pixels") {
            $0.frames = .range(try $1.frames())
        },
    ]
}
