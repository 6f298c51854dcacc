/// Parts of WebP files (RFC 9649).
package enum TestWebP {
    package static func chunk(_ name: String, _ payload: [UInt8]) -> [UInt8] {
        Array(name.utf8) + little(payload.count, 4) + payload + (payload.count % 2 == 1 ? [0] : [])
    }

    package static func file(_ chunks: [UInt8]) -> [UInt8] { chunk("RIFF", Array("WEBP".utf8) + chunks) }

    /// Returns an extended file: the features that it declares, the size of its canvas, and its other chunks.
    package static func extended(_ features: UInt8, _ width: Int, _ height: Int, _ chunks: [UInt8]) -> [UInt8] {
        file(chunk("VP8X", [features, 0, 0, 0] + little(width - 1, 3) + little(height - 1, 3)) + chunks)
    }
}

// Lossless bitstreams.
extension BitWriter {
    /// Begins a bitstream, up to its version.
    package init(webPOf width: Int, _ height: Int) {
        self.init()
        for (value, bits) in [(0x2F, 8), (width - 1, 14), (height - 1, 14), (1, 1), (0, 3)] { put(value, bits) }
    }

    /// Puts a prefix code with the only symbol 0, which takes no bits.
    package mutating func putSinglePrefixCode() { put(0b0001, 4) }

    /// Puts a prefix code whose first `symbols` symbols have `lengths` bits each. The code of the lengths has one
    /// symbol of no bits.
    package mutating func putPrefixCode(lengths: Int, symbols: Int) {
        let order = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
        let place = order.firstIndex(of: lengths)!
        put(0, 1)
        put(place + 1 - 4, 4)
        for index in 0...place { put(index == place ? 1 : 0, 3) }
        // The number of symbols minus 2, in 12 bits.
        put(1, 1)
        put(5, 3)
        put(symbols - 2, 12)
    }
}
