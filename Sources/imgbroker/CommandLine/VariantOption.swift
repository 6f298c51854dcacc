import IPCProtocol

/// A part of a variant: a flag of `get` and `ctl prefetch`, and a key of a preset in the configuration file.
typealias VariantOption = CommandOption<GetOptions.Variant>

extension VariantOption {
    /// The key; with "--" before it, the flag.
    var name: String { String(help.names[0].dropFirst(2)) }
    /// What the help calls the value; nil for a switch.
    var value: String? { help.value }
    /// The explanation without its further lines.
    var summary: String {
        let line = help.explanation.prefix { $0 != "\n" }
        return line.hasSuffix(":") ? line.dropLast() + " (imgbroker-get(1) lists them)" : String(line)
    }
    var isRepeatable: Bool { name == "step" }
}

extension GetOptions.Variant {
    static let options = VariantOption.table([
        "--width N": .number("fit the image into this width", 1...PixelGeometry.maximumSide, \.width),
        "--height N": .number("and into this height", 1...PixelGeometry.maximumSide, \.height),
        "--fit FIT": .choice("the way: inside (default), contain, cover or fill", \.fit),
        "--position P": .value(
            """
            the part that cover keeps, and the place of an image on the canvas of the step pad:
                center (default)  top  bottom  left  right
                top-left  top-right  bottom-left  bottom-right
                X,Y        a focal point in shares of the sides, 0 to 1
                entropy    with cover: the part with the most detail
                attention  with cover: the most striking part
            """
        ) { $0.position = try $1.position() },
        "--scale-down": .flag("scale a result above the broker's scale-down-limit down to it", \.scaleDown),
        "--linear": .flag(
            "scale linear light instead of sRGB values: slower, and fine bright detail keeps its brightness", \.linear),
        "--crop X,Y,W,H": .value("use this part of the image only, in its own pixels; scaled afterwards") {
            $0.crop = try $1.crop()
        },
        "--step STEP": .value(
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
        "--pixel-format F": .choice(
            "the bytes of a pixel, with --as pixels: rgba8 (default), bgra8, rgb8 or gray8", \.pixelFormat),
        "--alpha MODE": .value(
            "of pixels: premultiplied (default) or straight",
            choices: [AlphaMode.premultiplied, .straight].map(\.rawValue)
        ) { $0.alpha = try $1.alpha("premultiplied or straight") },
        "--background COLOR": .value("the colour under transparent pixels of rgb8 and gray8 (default: #ffffff)") {
            $0.background = try $1.opaqueColor()
        },
        "--frame N": .value("the frame of an animation, from 0 on (default: 0)") {
            $0.frames = .one(try $1.number(in: 0...FrameSelection.highestIndex))
        },
        "--frames FIRST+COUNT": .value("successive frames of an animation, with --as pixels") {
            $0.frames = .range(try $1.frames())
        },
    ])
}
