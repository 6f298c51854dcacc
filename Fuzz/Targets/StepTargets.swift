import JSONCoding

@testable import IPCProtocol

/// Reads a variant with crop and steps, and checks its canonical form and its plans.
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
        expect(variant.steps.reduce(plan.scaled) { $1.result(of: $0) } == plan.result, "a removed step changes no size")
        if let area = plan.area {
            expect(area.x + area.width <= width && area.y + area.height <= height, "a crop is within the source")
        }
    }
}
