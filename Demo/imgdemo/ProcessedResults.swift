import IPCProtocol

/// The results of crops and steps that the contact sheet shows of one image.
struct ProcessedResults {
    let name: String
    /// What is done, in the order of the results.
    let remark: String
    let variants: [GetOptions.Variant]

    /// Colours, shapes and crops of an image with `width` × `height` pixels.
    static func all(width: Int, height: Int) -> [ProcessedResults] {
        let middle = Crop(x: width / 4, y: height / 4, width: max(1, width / 2), height: max(1, height / 2))
        let band = Crop(x: 0, y: height / 3, width: width, height: max(1, height / 4))
        return [
            ProcessedResults(
                name: "steps: colours", remark: "gray sepia invert vivid hue contrast",
                variants: [
                    [.function(.grayscale, amount: 1)], [.function(.sepia, amount: 1)], [.function(.invert, amount: 1)],
                    [.function(.saturate, amount: 2.5)],
                    [.hueRotate(degrees: 120)], [.function(.contrast, amount: 2)],
                ].map { variant(nil, $0) }),
            ProcessedResults(
                name: "steps: shapes", remark: "blur sharpen round circle rotate pad",
                variants: [
                    [.blur(sigma: 4)], [.sharpen(sigma: 2, amount: 3)], [.round(radius: 24)], [.circle],
                    [.rotate(degrees: 90), .flip(.vertical)],
                    [
                        .function(.opacity, amount: 0.6),
                        .pad(width: 148, height: 116, color: IPCProtocol.Color(red: 76, green: 141, blue: 255)),
                    ],
                ].map { variant(nil, $0) }),
            ProcessedResults(
                name: "crop, crop and steps", remark: "crops, tint, round, circles",
                variants: [
                    variant(middle, []), variant(band, []),
                    variant(middle, [.tint(IPCProtocol.Color(red: 255, green: 80, blue: 0, alpha: 120))]),
                    variant(band, [.round(radius: 16)]), variant(middle, [.circle, .function(.opacity, amount: 0.5)]),
                    variant(middle, [.circle, .background(IPCProtocol.Color(red: 250, green: 230, blue: 160))]),
                ]),
        ]
    }

    private static func variant(_ crop: Crop?, _ steps: [Step]) -> GetOptions.Variant {
        var variant = GetOptions.Variant()
        (variant.width, variant.height) = (ContactSheet.result.width, ContactSheet.result.height)
        (variant.crop, variant.steps) = (crop, steps)
        return variant
    }
}
