import Foundation
package import IPCProtocol

/// An image as numbers: straight alpha, 0 … 1 each, and the steps in their plainest form.
package struct StepReference {
    private var width, height: Int
    /// Red, green, blue and alpha.
    private var pixels: [SIMD4<Double>]

    /// The image after these steps.
    package init(_ picture: TestPicture, _ steps: [Step] = []) {
        (width, height) = (picture.width, picture.height)
        pixels = (0..<width * height).map { index in
            let pixel = picture[index % picture.width, index / picture.width]
            return SIMD4(Double(pixel.x), Double(pixel.y), Double(pixel.z), Double(pixel.w)) / 255
        }
        for step in steps { apply(step) }
    }

    private init(width: Int, height: Int, _ pixel: (Int, Int) -> SIMD4<Double>) {
        (self.width, self.height) = (width, height)
        pixels = (0..<width * height).map { pixel($0 % width, $0 / width) }
    }

    private subscript(x: Int, y: Int) -> SIMD4<Double> { pixels[y * width + x] }

    /// The image with multiplied colour, rounded.
    package var picture: TestPicture {
        TestPicture(width: width, height: height) { x, y in
            let value = (Self.multiplied(self[x, y]) * 255).rounded(.toNearestOrAwayFromZero)
            return SIMD4(UInt8(value.x), UInt8(value.y), UInt8(value.z), UInt8(value.w))
        }
    }

    private static func multiplied(_ pixel: SIMD4<Double>) -> SIMD4<Double> {
        var value = pixel * pixel.w
        value.w = pixel.w
        return value
    }

    private static func divided(_ pixel: SIMD4<Double>) -> SIMD4<Double> {
        if pixel.w <= 0 { return SIMD4() }
        var value = pixel / pixel.w
        value.w = pixel.w
        return value.clamped(lowerBound: SIMD4(), upperBound: SIMD4(repeating: 1))
    }

    private static func color(_ color: Color) -> SIMD4<Double> {
        SIMD4(Double(color.red), Double(color.green), Double(color.blue), Double(color.alpha)) / 255
    }

    private mutating func apply(_ step: Step) {
        let before = self
        switch step {
        case .rotate(let degrees):
            let turned = degrees != 180
            self = StepReference(width: turned ? height : width, height: turned ? width : height) { x, y in
                switch degrees {
                case 90: before[y, before.height - 1 - x]
                case 180: before[before.width - 1 - x, before.height - 1 - y]
                default: before[before.width - 1 - y, x]
                }
            }
        case .flip(let axis):
            self = StepReference(width: width, height: height) { x, y in
                axis == .horizontal ? before[before.width - 1 - x, y] : before[x, before.height - 1 - y]
            }
        case .blur(let sigma): self = blurred(sigma)
        case .sharpen(let sigma, let amount):
            let smooth = blurred(sigma)
            for index in pixels.indices {
                let (value, other) = (Self.multiplied(pixels[index]), Self.multiplied(smooth.pixels[index]))
                var sharp = value + (value - other) * amount
                sharp.clamp(lowerBound: SIMD4(), upperBound: SIMD4(repeating: value.w))
                sharp.w = value.w
                pixels[index] = Self.divided(sharp)
            }
        case .function(.opacity, let amount):
            for index in pixels.indices { pixels[index].w *= amount }
        case .function(let function, let amount): mapColors { Self.color($0, function, amount) }
        case .hueRotate(let degrees): mapColors { Self.hueRotated($0, degrees * .pi / 180) }
        case .tint(let color):
            let tint = Self.color(color)
            mapColors { $0 * (1 - tint.w) + SIMD3(tint.x, tint.y, tint.z) * tint.w }
        case .background(let color): over(Self.color(color))
        case .round(let radius): round(radius)
        case .circle:
            let side = min(width, height)
            let (left, top) = ((width - side) / 2, (height - side) / 2)
            self = StepReference(width: side, height: side) { x, y in before[left + x, top + y] }
            round(Double(side) / 2)
        case .pad(let width, let height, let color):
            over(Self.color(color))
            let inner = self
            let (newWidth, newHeight) = (max(width, inner.width), max(height, inner.height))
            let (left, top) = ((newWidth - inner.width) / 2, (newHeight - inner.height) / 2)
            self = StepReference(width: newWidth, height: newHeight) { x, y in
                let isInside = (left..<left + inner.width).contains(x) && (top..<top + inner.height).contains(y)
                return isInside ? inner[x - left, y - top] : Self.color(color)
            }
        }
    }

    private mutating func mapColors(_ change: (SIMD3<Double>) -> SIMD3<Double>) {
        for index in pixels.indices {
            let old = pixels[index]
            let new = change(SIMD3(old.x, old.y, old.z)).clamped(lowerBound: SIMD3(), upperBound: SIMD3(repeating: 1))
            pixels[index] = SIMD4(new.x, new.y, new.z, old.w)
        }
    }

    private mutating func over(_ color: SIMD4<Double>) {
        for index in pixels.indices {
            let upper = Self.multiplied(pixels[index])
            pixels[index] = Self.divided(upper + Self.multiplied(color) * (1 - upper.w))
        }
    }

    // MARK: Filter Effects Module Level 1

    private static func color(_ color: SIMD3<Double>, _ function: Step.Function, _ amount: Double) -> SIMD3<Double> {
        let rest = 1 - amount
        switch function {
        case .grayscale:
            return SIMD3(
                dot(color, 0.2126 + 0.7874 * rest, 0.7152 - 0.7152 * rest, 0.0722 - 0.0722 * rest),
                dot(color, 0.2126 - 0.2126 * rest, 0.7152 + 0.2848 * rest, 0.0722 - 0.0722 * rest),
                dot(color, 0.2126 - 0.2126 * rest, 0.7152 - 0.7152 * rest, 0.0722 + 0.9278 * rest))
        case .sepia:
            return SIMD3(
                dot(color, 0.393 + 0.607 * rest, 0.769 - 0.769 * rest, 0.189 - 0.189 * rest),
                dot(color, 0.349 - 0.349 * rest, 0.686 + 0.314 * rest, 0.168 - 0.168 * rest),
                dot(color, 0.272 - 0.272 * rest, 0.534 - 0.534 * rest, 0.131 + 0.869 * rest))
        case .saturate:
            return SIMD3(
                dot(color, 0.213 + 0.787 * amount, 0.715 - 0.715 * amount, 0.072 - 0.072 * amount),
                dot(color, 0.213 - 0.213 * amount, 0.715 + 0.285 * amount, 0.072 - 0.072 * amount),
                dot(color, 0.213 - 0.213 * amount, 0.715 - 0.715 * amount, 0.072 + 0.928 * amount))
        case .invert: return color * (1 - 2 * amount) + amount
        case .brightness: return color * amount
        case .contrast: return (color - 0.5) * amount + 0.5
        case .opacity: return color
        }
    }

    private static func hueRotated(_ color: SIMD3<Double>, _ angle: Double) -> SIMD3<Double> {
        let (c, s) = (cos(angle), sin(angle))
        return SIMD3(
            dot(color, 0.213 + c * 0.787 - s * 0.213, 0.715 - c * 0.715 - s * 0.715, 0.072 - c * 0.072 + s * 0.928),
            dot(color, 0.213 - c * 0.213 + s * 0.143, 0.715 + c * 0.285 + s * 0.140, 0.072 - c * 0.072 - s * 0.283),
            dot(color, 0.213 - c * 0.213 - s * 0.787, 0.715 - c * 0.715 + s * 0.715, 0.072 + c * 0.928 + s * 0.072))
    }

    private static func dot(_ color: SIMD3<Double>, _ red: Double, _ green: Double, _ blue: Double) -> Double {
        color.x * red + color.y * green + color.z * blue
    }

    // MARK: Blur and shape

    private func blurred(_ sigma: Double) -> StepReference {
        let reach = Int((6 * sigma).rounded(.up)) + 1
        var weights = (-reach...reach).map { (distance: Int) in
            exp(-0.5 * Double(distance * distance) / (sigma * sigma))
        }
        let sum = weights.reduce(0, +)
        weights = weights.map { $0 / sum }
        let colors = pixels.map(Self.multiplied)
        let (width, height) = (width, height)
        var rows = colors
        var result = self
        for place in rows.indices {
            var value = SIMD4<Double>()
            for (index, weight) in weights.enumerated() {
                let column = min(width - 1, max(0, place % width + index - reach))
                value += colors[place / width * width + column] * weight
            }
            rows[place] = value
        }
        for place in rows.indices {
            var value = SIMD4<Double>()
            for (index, weight) in weights.enumerated() {
                let row = min(height - 1, max(0, place / width + index - reach))
                value += rows[row * width + place % width] * weight
            }
            result.pixels[place] = Self.divided(value)
        }
        return result
    }

    /// Counts the inner ones of 32 × 32 points of each pixel.
    private mutating func round(_ radius: Double) {
        let radius = min(radius, Double(width) / 2, Double(height) / 2)
        let points = 32
        for index in pixels.indices {
            let (x, y) = (index % width, index / width)
            var inside = 0
            for point in 0..<points * points {
                let px = Double(x) + (Double(point % points) + 0.5) / Double(points)
                let py = Double(y) + (Double(point / points) + 0.5) / Double(points)
                let dx = max(radius - px, px - (Double(width) - radius), 0)
                let dy = max(radius - py, py - (Double(height) - radius), 0)
                if dx * dx + dy * dy <= radius * radius { inside += 1 }
            }
            pixels[index].w *= Double(inside) / Double(points * points)
        }
    }
}
