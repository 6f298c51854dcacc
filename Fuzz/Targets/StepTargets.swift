import JSONCoding

@testable import IPCProtocol
@testable import ImageDecoding

/// Reads a variant with crop and steps, checks its canonical form and its plans, and applies the steps to a small
/// image.
func fuzzSteps(_ bytes: [UInt8]) {
    guard let variant = GetOptions.Variant(decoding: bytes[...]) else { return }
    expect(variant.steps.count <= Step.most, "no more steps than permitted")
    expect(GetOptions.Variant(decoding: variant.encoded[...]) == variant, "a variant survives writing and reading")
    let transform = variant.transform(scaleDownLimit: 1 << 20)
    expect(transform.edits?.steps ?? [] == variant.steps.filter(\.hasEffect), "steps without effect are removed")
    let read = Transform(decoding: transform.encoded[...])
    expect(read == transform, "a transform survives writing and reading")
    expect(read?.canonical == transform.canonical, "equal transforms have equal words")
    for (width, height) in [(1, 1), (1000, 7), (65_535, 65_535)] {
        guard let source = PixelGeometry(width: width, height: height), let plan = transform.plan(for: source) else {
            continue
        }
        let result = variant.steps.reduce(plan.beforeSteps) { $1.result(of: $0) }
        expect(result == plan.result, "a removed step changes no size")
        if let area = plan.area {
            expect(area.x + area.width <= width && area.y + area.height <= height, "a crop is within the source")
        }
    }
    for size in [PixelGeometry(width: 7, height: 5), PixelGeometry(width: 1, height: 9)] {
        guard let size, let result = try? applied(transform.edits?.steps ?? [], to: size) else { continue }
        expect(variant.steps.reduce(size) { $1.result(of: $0) } == result, "the steps make the planned size")
    }
}

/// Applies steps to an image of one colour, unless it grows above 65,536 pixels. Returns its size.
private func applied(_ steps: [Step], to size: PixelGeometry) throws(WireError) -> PixelGeometry {
    try StepSequence.check(steps, from: size, frames: 1, atMost: 1 << 16)
    var raster = try Raster(size)
    unsafe raster.memory.bytes.initializeMemory(as: UInt8.self, repeating: 200)
    try StepSequence(Edits(crop: nil, steps: steps), nil, .rgba8, isTransparent: true).apply(to: &raster)
    return raster.geometry
}
