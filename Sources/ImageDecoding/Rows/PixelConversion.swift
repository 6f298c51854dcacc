// Arithmetic on rows of four-byte pixels, alpha last. All functions round to the nearest value.

private func channels(_ pixels: UnsafeMutableRawBufferPointer) -> UnsafeMutableBufferPointer<UInt8> {
    unsafe pixels.bindMemory(to: UInt8.self)
}

/// Returns `value` * `alpha` / 255.
@inline(__always)
private func scaled(_ value: UInt8, by alpha: UInt16) -> UInt8 {
    UInt8(truncatingIfNeeded: (UInt16(value) &* alpha &+ 127) / 255)
}

package func premultiply(_ pixels: UnsafeMutableRawBufferPointer) {
    let bytes = unsafe channels(pixels)
    for pixel in stride(from: 0, to: bytes.count, by: 4) {
        let alpha = unsafe UInt16(bytes[pixel + 3])
        if alpha == 255 { continue }
        unsafe bytes[pixel] = scaled(bytes[pixel], by: alpha)
        unsafe bytes[pixel + 1] = scaled(bytes[pixel + 1], by: alpha)
        unsafe bytes[pixel + 2] = scaled(bytes[pixel + 2], by: alpha)
    }
}

/// Blends pixels with straight alpha over `lower` (the "over" operator), computed exactly and rounded once. A
/// transparent upper pixel changes nothing.
package func blend(_ upper: UnsafeRawBufferPointer, over lower: UnsafeMutableRawBufferPointer) {
    let (source, target) = unsafe (upper.bindMemory(to: UInt8.self), channels(lower))
    for pixel in stride(from: 0, to: target.count, by: 4) {
        let alpha = unsafe UInt32(source[pixel + 3])
        if alpha == 0 { continue }
        // Both weights, and their sum, are at most 255 × 255.
        let upperWeight = alpha &* 255
        let lowerWeight = unsafe UInt32(target[pixel + 3]) &* (255 &- alpha)
        if lowerWeight == 0 {
            // The usual case: an opaque pixel, or a transparent one below.
            unsafe lower.storeBytes(
                of: upper.load(fromByteOffset: pixel, as: UInt32.self), toByteOffset: pixel, as: UInt32.self)
            continue
        }
        let sum = upperWeight &+ lowerWeight
        for channel in pixel..<pixel + 3 {
            let colors = unsafe UInt32(source[channel]) &* upperWeight &+ UInt32(target[channel]) &* lowerWeight
            unsafe target[channel] = UInt8(truncatingIfNeeded: (colors &+ sum / 2) / sum)
        }
        unsafe target[pixel + 3] = UInt8(truncatingIfNeeded: (sum &+ 127) / 255)
    }
}

/// Divides colour by alpha; transparent pixels become black.
package func unpremultiply(_ pixels: UnsafeMutableRawBufferPointer) {
    let bytes = unsafe channels(pixels)
    for pixel in stride(from: 0, to: bytes.count, by: 4) {
        let alpha = unsafe UInt32(bytes[pixel + 3])
        if alpha == 255 { continue }
        for channel in pixel..<pixel + 3 {
            let value = unsafe alpha == 0 ? 0 : (UInt32(bytes[channel]) * 255 + alpha / 2) / alpha
            unsafe bytes[channel] = UInt8(min(value, 255))
        }
    }
}

package func swapRedAndBlue(_ pixels: UnsafeMutableRawBufferPointer) {
    let words = unsafe pixels.bindMemory(to: UInt32.self)
    for index in 0..<words.count {
        let (others, red, blue) = unsafe (words[index] & 0xFF00_FF00, words[index] & 0xFF, words[index] >> 16 & 0xFF)
        unsafe words[index] = others | red << 16 | blue
    }
}

/// Blends premultiplied colour over white.
package func flattenOverWhite(_ pixels: UnsafeMutableRawBufferPointer) {
    let bytes = unsafe channels(pixels)
    for pixel in stride(from: 0, to: bytes.count, by: 4) {
        let white = unsafe 255 - bytes[pixel + 3]
        if white == 0 { continue }
        for channel in pixel..<pixel + 3 {
            let (sum, overflow) = unsafe bytes[channel].addingReportingOverflow(white)
            unsafe bytes[channel] = overflow ? 255 : sum
        }
        unsafe bytes[pixel + 3] = 255
    }
}
