// Animated files, written without a library.

extension TestAnimation {
    /// Returns an animated PNG of 8 bits a channel. `outside`: the default image, if it is no frame. `pieces`: the
    /// number of chunks for the pixels of a frame.
    package func png(
        interlaced: Bool = false, outside: TestPicture? = nil, pieces: Int = 1, before: [[UInt8]] = []
    ) -> [UInt8] {
        var (sequence, chunks): (Int, [[UInt8]]) = (0, before)
        chunks.append(TestPNG.chunk("acTL", big(frames.count, 4) + big(loops ?? 1, 4)))
        if let outside { chunks.append(TestPNG.chunk("IDAT", pixels(of: outside, interlaced))) }
        for (index, frame) in frames.enumerated() {
            chunks.append(control(frame, sequence))
            sequence += 1
            let data = pixels(of: frame.picture, interlaced)
            let step = (data.count + pieces - 1) / pieces
            for start in stride(from: 0, to: data.count, by: step) {
                let piece = Array(data[start..<min(start + step, data.count)])
                if index == 0 && outside == nil {
                    chunks.append(TestPNG.chunk("IDAT", piece))
                } else {
                    chunks.append(TestPNG.chunk("fdAT", big(sequence, 4) + piece))
                    sequence += 1
                }
            }
        }
        let header = big(width, 4) + big(height, 4) + [8, 6, 0, 0, interlaced ? 1 : 0]
        return [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + TestPNG.chunk("IHDR", header)
            + chunks.flatMap { $0 } + TestPNG.chunk("IEND", [])
    }

    private func control(_ frame: Frame, _ sequence: Int) -> [UInt8] {
        let numbers = [sequence, frame.picture.width, frame.picture.height, frame.x, frame.y].flatMap { big($0, 4) }
        let disposal: UInt8 = [.keep: 0, .clear: 1, .restore: 2][frame.disposal]!
        return TestPNG.chunk(
            "fcTL", numbers + big(frame.delay, 2) + big(0, 2) + [disposal, frame.isBlended ? 1 : 0])
    }

    private func pixels(of picture: TestPicture, _ interlaced: Bool) -> [UInt8] {
        TestPNG(width: picture.width, height: picture.height, kind: .rgba, depth: 8, interlaced: interlaced) { x, y in
            let pixel = picture[x, y]
            return [Int(pixel.x), Int(pixel.y), Int(pixel.z), Int(pixel.w)]
        }.data
    }

    /// Returns a GIF whose pixels are opaque or transparent. `screen`: the logical screen size, if it differs from the
    /// canvas. `beyondPalette`: transparent pixels have an index beyond a palette of 128 colours, not a declared one.
    package func gif(
        interlaced: Bool = false, localPalettes: Bool = false, screen: (Int, Int)? = nil, trailer: Bool = true,
        beyondPalette: Bool = false
    ) -> [UInt8] {
        let common = Self.palette(of: frames.map(\.picture))
        // The size of palettes as flags state it.
        let (size, transparent): (UInt8, Int) = beyondPalette ? (6, 255) : (7, 0)
        var file = Array("GIF89a".utf8) + little(screen?.0 ?? width, 2) + little(screen?.1 ?? height, 2)
        // A background that must be ignored.
        file += localPalettes ? [0x70, 3, 0] : [0xF0 | size, 3, 0] + Self.table(common, size)
        if let loops { file += [0x21, 0xFF, 11] + Array("NETSCAPE2.0".utf8) + [3, 1] + little(loops, 2) + [0] }
        file += [0x21, 0xFE, 3, 1, 2, 3, 1, 4, 0]
        for frame in frames {
            let disposal = [.keep: 1, .clear: 2, .restore: 3][frame.disposal]!
            let flags = UInt8(disposal << 2 | (beyondPalette ? 0 : 1))
            file += [0x21, 0xF9, 4, flags] + little(frame.delay, 2) + [0, 0]
            let palette = localPalettes ? Self.palette(of: [frame.picture]) : common
            file += [0x2C] + [frame.x, frame.y, frame.picture.width, frame.picture.height].flatMap { little($0, 2) }
            file += [(localPalettes ? 0x80 | size : 0) | (interlaced ? 0x40 : 0)]
            if localPalettes { file += Self.table(palette, size) }
            file += Self.blocks(Self.rows(of: frame.picture, interlaced), palette, transparent: transparent)
        }
        return file + (trailer ? [0x3B] : [])
    }

    /// The opaque colours, after an entry for transparent pixels.
    private static func palette(of pictures: [TestPicture]) -> [SIMD4<UInt8>] {
        var palette: [SIMD4<UInt8>] = [SIMD4(1, 2, 3, 0)]
        for picture in pictures {
            for y in 0..<picture.height {
                for x in 0..<picture.width where picture[x, y].w > 0 && !palette.contains(picture[x, y]) {
                    palette.append(picture[x, y])
                }
            }
        }
        precondition(palette.count <= 256)
        return palette
    }

    private static func table(_ palette: [SIMD4<UInt8>], _ size: UInt8) -> [UInt8] {
        let count = 2 << Int(size)
        return (0..<count).flatMap { index -> [UInt8] in
            let color = index < palette.count ? palette[index] : .zero
            return [color.x, color.y, color.z]
        }
    }

    private static func rows(of picture: TestPicture, _ interlaced: Bool) -> [SIMD4<UInt8>] {
        let passes = interlaced ? [(0, 8), (4, 8), (2, 4), (1, 2)] : [(0, 1)]
        return passes.flatMap { start, step in
            stride(from: start, to: picture.height, by: step).flatMap { y in
                (0..<picture.width).map { picture[$0, y] }
            }
        }
    }

    /// Returns indices of 8 bits as LZW data in sub-blocks.
    private static func blocks(
        _ pixels: [SIMD4<UInt8>], _ palette: [SIMD4<UInt8>], transparent: Int
    ) -> [UInt8] {
        var (writer, size) = (BitWriter(), 9)
        func put(_ code: Int) { writer.put(code, size) }
        var (codes, next): ([[Int]: Int], Int) = ([:], 258)
        var run: [Int] = []
        put(256)
        for pixel in pixels {
            let index = pixel.w == 0 ? transparent : palette.firstIndex(of: pixel)!
            if run.isEmpty || codes[run + [index]] != nil {
                run.append(index)
                continue
            }
            put(run.count == 1 ? run[0] : codes[run]!)
            codes[run + [index]] = next
            if next == 1 << size, size < 12 { size += 1 }
            next += 1
            run = [index]
            if next == 4096 {
                put(index)
                put(256)
                (codes, next, size, run) = ([:], 258, 9, [])
            }
        }
        if !run.isEmpty { put(run.count == 1 ? run[0] : codes[run]!) }
        put(257)
        let bytes = writer.filled
        var blocks: [UInt8] = [8]
        for start in stride(from: 0, to: bytes.count, by: 255) {
            let block = bytes[start..<min(start + 255, bytes.count)]
            blocks += [UInt8(block.count)] + block
        }
        return blocks + [0]
    }

    /// A lossless animated WebP. Frames must have even positions, and no `restore` disposal.
    package var webp: [UInt8] {
        // A background that must be ignored.
        var chunks = TestWebP.chunk("ANIM", [1, 2, 3, 255] + little(loops ?? 1, 2))
        for frame in frames {
            precondition(frame.x % 2 == 0 && frame.y % 2 == 0 && frame.disposal != .restore)
            let place = little(frame.x / 2, 3) + little(frame.y / 2, 3)
            let size = little(frame.picture.width - 1, 3) + little(frame.picture.height - 1, 3)
            let flags = UInt8((frame.isBlended ? 0 : 2) | (frame.disposal == .clear ? 1 : 0))
            chunks += TestWebP.chunk(
                "ANMF", place + size + little(frame.delay, 3) + [flags] + Self.bitstream(of: frame.picture))
        }
        return TestWebP.extended(0x12, width, height, chunks)
    }

    /// Returns a lossless bitstream with 8-bit codes for all values of a channel.
    private static func bitstream(of picture: TestPicture) -> [UInt8] {
        var writer = BitWriter(webPOf: picture.width, picture.height)
        // No transform, no colour cache, no prefix code groups.
        writer.put(0b000, 3)
        for _ in 0..<4 { writer.putPrefixCode(lengths: 8, symbols: 256) }
        // Distances.
        writer.putSinglePrefixCode()
        for y in 0..<picture.height {
            for x in 0..<picture.width {
                let pixel = picture[x, y]
                for value in [pixel.y, pixel.x, pixel.z, pixel.w] { writer.put(code: Int(value), 8) }
            }
        }
        return TestWebP.chunk("VP8L", writer.filled)
    }
}
