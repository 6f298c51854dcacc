import CImageCodecs
import Glibc
import IPCProtocol

/// Consecutive steps that change each pixel by itself, wherever it is. They are applied together and rounded once.
struct ColorFunctions {
    private let functions: [steps_function]

    /// Creates the functions of the steps at the beginning of `steps`, and removes those; nil without any.
    init?(takenFrom steps: inout ArraySlice<Step>, _ order: PixelFormat) {
        var functions: [steps_function] = []
        while let step = steps.first, let function = Self.function(of: step) {
            functions.append(function.stored(order))
            steps.removeFirst()
        }
        if functions.isEmpty { return nil }
        self.functions = functions
    }

    /// Applies them to pixels with straight alpha.
    func apply(to pixels: UnsafeMutableRawBufferPointer) {
        let bytes = unsafe pixels.bindMemory(to: UInt8.self)
        unsafe steps_apply(bytes.baseAddress, bytes.count / PixelGeometry.bytesPerPixel, functions, functions.count)
    }

    private static func function(of step: Step) -> ColorMatrix? {
        switch step {
        case .function(let function, let amount): ColorMatrix(function, Float(amount))
        case .hueRotate(let degrees): ColorMatrix(hueRotation: degrees)
        case .tint(let color): ColorMatrix(tint: color)
        case .background(let color): ColorMatrix(background: color)
        case .rotate, .flip, .blur, .sharpen, .round, .circle, .pad: nil
        }
    }
}

/// A function of red, green, blue, alpha and 255: a row of factors for each resulting channel. The matrices are those
/// of the W3C's Filter Effects Module Level 1, section 9 and its chapter about shorthands; they apply to sRGB values.
private struct ColorMatrix {
    private var rows: [[Float]] = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]
    private var isBackground = false

    init(_ function: Step.Function, _ amount: Float) {
        switch function {
        case .grayscale: mixColors([0.2126, 0.7152, 0.0722], saturation: 1 - amount)
        case .saturate: mixColors([0.213, 0.715, 0.072], saturation: amount)
        case .sepia:
            let sepia: [[Float]] = [[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]]
            setColors { row, column in sepia[row][column] * amount + (row == column ? 1 - amount : 0) }
        case .invert: scaleColors(by: 1 - 2 * amount, adding: amount)
        case .brightness: scaleColors(by: amount, adding: 0)
        case .contrast: scaleColors(by: amount, adding: 0.5 - 0.5 * amount)
        case .opacity: rows[3][3] = amount
        }
    }

    init(hueRotation degrees: Double) {
        let angle = degrees * .pi / 180
        let (cosine, sine) = (Float(cos(angle)), Float(sin(angle)))
        let luminance: [Float] = [0.213, 0.715, 0.072]
        let sines: [[Float]] = [[-0.213, -0.715, 0.928], [0.143, 0.140, -0.283], [-0.787, 0.715, 0.072]]
        setColors { row, column in
            luminance[column] + cosine * ((row == column ? 1 : 0) - luminance[column]) + sine * sines[row][column]
        }
    }

    /// The composition of a colour source-atop.
    init(tint color: Color) {
        let share = Float(color.alpha) / 255
        for (row, value) in [color.red, color.green, color.blue].enumerated() {
            rows[row][row] = 1 - share
            rows[row][4] = Float(value) / 255 * share
        }
    }

    /// The composition over an opaque colour.
    init(background color: Color) {
        isBackground = true
        for (row, value) in [color.red, color.green, color.blue].enumerated() { rows[row][4] = Float(value) / 255 }
    }

    /// Mixes colours with their weighted mean.
    private mutating func mixColors(_ weights: [Float], saturation: Float) {
        setColors { row, column in weights[column] * (1 - saturation) + (row == column ? saturation : 0) }
    }

    private mutating func setColors(_ factor: (_ row: Int, _ column: Int) -> Float) {
        for row in 0..<3 { for column in 0..<3 { rows[row][column] = factor(row, column) } }
    }

    private mutating func scaleColors(by factor: Float, adding constant: Float) {
        for row in 0..<3 {
            rows[row][row] = factor
            rows[row][4] = constant
        }
    }

    /// Returns the function for pixels in the order of `order`.
    func stored(_ order: PixelFormat) -> steps_function {
        let places = order == .bgra8 ? [2, 1, 0, 3, 4] : [0, 1, 2, 3, 4]
        var function = steps_function()
        function.is_background = isBackground ? 1 : 0
        unsafe withUnsafeMutableBytes(of: &function.columns) { bytes in
            let columns = unsafe bytes.bindMemory(to: Float.self)
            for (result, row) in rows.enumerated() {
                for (channel, factor) in row.enumerated() {
                    unsafe columns[places[channel] * 4 + places[result]] = channel == 4 ? factor * 255 : factor
                }
            }
        }
        return function
    }
}
