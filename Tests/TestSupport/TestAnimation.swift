/// A small animation with its expected composed frames, from which files are written.
package struct TestAnimation: Sendable {
    /// The disposal of a frame's area.
    package enum Disposal: CaseIterable, Sendable {
        case keep, clear, restore
    }

    package struct Frame: Sendable {
        package var (x, y): (Int, Int)
        package var picture: TestPicture
        package var disposal: Disposal
        package var isBlended: Bool
        /// The delay in the format's unit: hundredths of a second, or milliseconds in WebP.
        package var delay: Int

        package init(
            _ x: Int, _ y: Int, _ picture: TestPicture, _ disposal: Disposal = .keep, isBlended: Bool = true,
            delay: Int = 20
        ) {
            (self.x, self.y, self.picture, self.disposal) = (x, y, picture, disposal)
            (self.isBlended, self.delay) = (isBlended, delay)
        }
    }

    package var (width, height): (Int, Int)
    package var frames: [Frame]
    /// The file's number of repetitions; nil to omit it.
    package var loops: Int?

    package init(width: Int, height: Int, loops: Int? = 0, frames: [Frame]) {
        (self.width, self.height, self.loops, self.frames) = (width, height, loops, frames)
    }

    /// The composed frames, computed independently of the worker, pixel by pixel in floating point.
    package var shown: [TestPicture] {
        var canvas = TestPicture(width: width, height: height) { _, _ in .zero }
        var shown: [TestPicture] = []
        for (index, frame) in frames.enumerated() {
            let before = canvas
            canvas = TestPicture(width: width, height: height) { x, y in
                guard let upper = frame[x, y] else { return before[x, y] }
                return frame.isBlended && index > 0 ? Self.blend(upper, before[x, y]) : upper
            }
            shown.append(canvas)
            guard frame.disposal != .keep else { continue }
            let after = canvas
            canvas = TestPicture(width: width, height: height) { x, y in
                frame[x, y] == nil ? after[x, y] : frame.disposal == .clear ? .zero : before[x, y]
            }
        }
        return shown
    }

    private static func blend(_ upper: SIMD4<UInt8>, _ lower: SIMD4<UInt8>) -> SIMD4<UInt8> {
        if upper.w == 0 { return lower }
        let (above, below) = (Double(upper.w) / 255, Double(lower.w) / 255)
        let alpha = above + below * (1 - above)
        var result = SIMD4<UInt8>(0, 0, 0, UInt8((alpha * 255).rounded()))
        for channel in 0..<3 {
            let color = (Double(upper[channel]) * above + Double(lower[channel]) * below * (1 - above)) / alpha
            // Rounds halves up despite rounding errors.
            result[channel] = UInt8((color + 1e-9).rounded())
        }
        return result
    }
}

extension TestAnimation.Frame {
    /// The pixel at a canvas position; nil outside of the frame.
    subscript(x: Int, y: Int) -> SIMD4<UInt8>? {
        let (column, row) = (x - self.x, y - self.y)
        guard (0..<picture.width).contains(column), (0..<picture.height).contains(row) else { return nil }
        return picture[column, row]
    }
}

extension TestAnimation {
    /// Every combination of disposal and blending before every other, over partly transparent pixels with `alphas`.
    package static func everything(
        _ disposals: [Disposal] = Disposal.allCases, blends: [Bool] = [true, false], alphas: [UInt8], grid: Int = 1
    ) -> TestAnimation {
        let kinds = disposals.flatMap { disposal in blends.map { (disposal, $0) } }
        let pairs = kinds.flatMap { first in kinds.flatMap { [first, $0] } }
        var frames = [Frame(0, 0, patch(14, 10, 0, alphas))]
        for (index, (disposal, isBlended)) in pairs.enumerated() {
            let (x, y) = (index * 5 % 7 / grid * grid, index * 3 % 5 / grid * grid)
            let picture = patch(4 + index % 4, 3 + index % 3, index + 1, alphas)
            frames.append(Frame(x, y, picture, disposal, isBlended: isBlended, delay: 3 + index * 7))
        }
        return TestAnimation(width: 14, height: 10, frames: frames)
    }

    /// An image of a few colours that depend on `seed`, with all `alphas`.
    package static func patch(_ width: Int, _ height: Int, _ seed: Int, _ alphas: [UInt8]) -> TestPicture {
        TestPicture(width: width, height: height) { x, y in
            let alpha = alphas[(x + 2 * y + seed) % alphas.count]
            let shade = (x / 2 + y + seed) % 4
            let color = SIMD4<UInt8>(
                UInt8((40 + seed * 37 + shade * 60) % 256), UInt8((200 + seed * 11 + shade * 20) % 256),
                UInt8((90 + seed * 71 + shade * 5) % 256), alpha)
            return alpha == 0 ? .zero : color
        }
    }
}
