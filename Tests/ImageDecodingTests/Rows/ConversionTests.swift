import IPCProtocol
import TestSupport
import Testing

@testable import ImageDecoding

struct ConversionTests {
    @Test func premultiplyingRoundsEveryPairExactly() {
        var pixels: [UInt8] = []
        for alpha in 0...255 {
            for value in 0...255 { pixels += [UInt8(value), UInt8(255 - value), UInt8(value / 2), UInt8(alpha)] }
        }
        let straight = TestPicture(width: 256, height: 256, bytes: pixels)
        unsafe pixels.withUnsafeMutableBytes { unsafe premultiply($0) }
        for place in stride(from: 0, to: pixels.count, by: 4) {
            for channel in 0..<3 {
                let exact = Double(straight.bytes[place + channel]) * Double(straight.bytes[place + 3]) / 255
                if Double(pixels[place + channel]) != exact.rounded() { Issue.record("\(place)") }
            }
        }
        #expect(pixels == straight.premultiplied.bytes)
    }

    @Test func unpremultiplyingUndoesIt() {
        let once = TestPicture.gradient(width: 256, height: 64, transparent: true).premultiplied
        var bytes = once.bytes
        unsafe bytes.withUnsafeMutableBytes { unsafe unpremultiply($0) }
        unsafe bytes.withUnsafeMutableBytes { unsafe premultiply($0) }
        #expect(bytes == once.bytes)
    }

    @Test func flatteningBlendsOverWhite() {
        var bytes: [UInt8] = [0, 0, 0, 0, 100, 50, 0, 128, 9, 8, 7, 255]
        unsafe bytes.withUnsafeMutableBytes { unsafe flattenOverWhite($0) }
        #expect(bytes == [255, 255, 255, 255, 227, 177, 127, 255, 9, 8, 7, 255])
    }
}
