#if !WITHOUT_BMP
    import IPCProtocol
    import TestSupport
    import Testing
    import WorkerProtocol

    @testable import ImageDecoding
    @testable import imgworker_bmp

    /// PBM, PGM, PPM and PAM.
    struct PNMTests {
        private func pixels(_ file: String, _ bytes: [UInt8] = []) throws -> [SIMD4<UInt8>] {
            let shown = try decode(Array(file.utf8) + bytes)
            return (0..<shown.height).flatMap { y in (0..<shown.width).map { shown[$0, y] } }
        }

        private func gray(_ values: UInt8...) -> [SIMD4<UInt8>] { values.map { SIMD4($0, $0, $0, 255) } }

        @Test func text() throws {
            #expect(try pixels("P1\n# a bitmap\n3 2\n1 0 1\n#\n01 # 7\n1") == gray(0, 255, 0, 255, 0, 0))
            #expect(try pixels("P1 3 1 101") == gray(0, 255, 0))
            #expect(try pixels("P2\r\n3\t1 # w\n10\n0 5 10 \n") == gray(0, 128, 255))
            #expect(try pixels("P3 1 2 255 1 2 3 255 254 253") == [SIMD4(1, 2, 3, 255), SIMD4(255, 254, 253, 255)])
            #expect(try pixels("P3 1 1 255 0 256 4294967295") == [SIMD4(0, 255, 255, 255)])
        }

        @Test func bytes() throws {
            let bits = try pixels("P4 9 2\n", [0xA0, 0, 1, 0x80])
            #expect(bits.indices.filter { bits[$0] == SIMD4(0, 0, 0, 255) } == [0, 2, 16, 17])
            #expect(bits[1] == SIMD4(255, 255, 255, 255))
            #expect(try pixels("P5 3 1 255\n", [0, 99, 255]) == gray(0, 99, 255))
            #expect(try pixels("P5 3 1 4\n", [0, 2, 9]) == gray(0, 128, 255))
            #expect(try pixels("P5 2 1 65535\n", [0x80, 0x80, 0xFF, 0xFF]) == gray(128, 255))
            #expect(try pixels("P5 2 1 1000\n", [0, 100, 3, 0xE8]) == gray(26, 255))
            // The byte after the white space is a pixel, even if it looks like a comment.
            #expect(try pixels("P6 1 1 255\n#ab") == [SIMD4(35, 97, 98, 255)])
        }

        @Test func arbitraryMaps() throws {
            let file =
                "P7\nWIDTH 1\nHEIGHT 1\n# comment\nDEPTH %\nMAXVAL 255\nTUPLTYPE SOMETHING LONGER THAN 16\nENDHDR\n"
            let depth = { (depth: String) in file.split(separator: "%").joined(separator: depth) }
            #expect(try pixels(depth("1"), [7]) == gray(7))
            #expect(try pixels(depth("2"), [7, 8]) == [SIMD4(7, 7, 7, 8)])
            #expect(try pixels(depth("3"), [7, 8, 9]) == [SIMD4(7, 8, 9, 255)])
            #expect(try pixels(depth("4"), [7, 8, 9, 10]) == [SIMD4(7, 8, 9, 10)])
            #expect(failure(Array(depth("5").utf8) + [1, 2, 3, 4, 5]) == .unsupportedFormat)
            #expect(failure(Array("P7\nWIDTH 1\n".utf8)) == .truncated)
        }

        @Test func invalid() {
            for (file, code) in [
                ("P5 1 1 0\na", ErrorCode.decodeFailed), ("P5 1 1 65536\na", .decodeFailed),
                ("P5 0 1 255\na", .emptyImage), ("P5 99999999999999999999 1 255\na", .tooManyPixels),
                ("P5 1 -1 255\na", .decodeFailed),
                ("P3 1 1 255\n1 2 x", .decodeFailed), ("P1 2 2 1 1 2 a", .decodeFailed),
                ("P5 2 2 255\nabc", .truncated), ("P5 65535 65535 255\nabc", .truncated),
                ("P2 3 3 255\n1 2 3", .truncated), ("P6 12", .truncated),
            ] { #expect(failure(Array(file.utf8)) == code, "\(file)") }
        }
    }

    struct QOITests {
        private func file(_ width: Int, _ height: Int, channels: UInt8 = 4, space: UInt8 = 0, _ chunks: [UInt8])
            -> [UInt8]
        {
            let header: [UInt8] = [0, 0, 0, UInt8(width), 0, 0, 0, UInt8(height), channels, space]
            return Array("qoif".utf8) + header + chunks + [0, 0, 0, 0, 0, 0, 0, 1]
        }

        /// All chunks of the specification.
        @Test func chunks() throws {
            let chunks: [UInt8] = [
                // The first pixel again, RGB, RGBA.
                0xC0, 0xFE, 10, 20, 30, 0xFF, 1, 2, 3, 128,
                // Differences of -2, 1 and 0; of green -32 and 0 to it; and of green 31 and 7 and -8 to it.
                0b01_00_11_10, 0x80, 0x88, 0xBF, 0xF0,
                // The pixel of the second chunk, by its hash, three times.
                // (10 · 3 + 20 · 5 + 30 · 7 + 255 · 11) mod 64.
                9, 0xC1,
            ]
            let shown = try decode(file(3, 3, chunks))
            let expected: [SIMD4<UInt8>] = [
                SIMD4(0, 0, 0, 255), SIMD4(10, 20, 30, 255), SIMD4(1, 2, 3, 128), SIMD4(255, 3, 3, 128),
                SIMD4(223, 227, 227, 128), SIMD4(5, 2, 250, 128), SIMD4(10, 20, 30, 255), SIMD4(10, 20, 30, 255),
                SIMD4(10, 20, 30, 255),
            ]
            #expect((0..<9).map { shown[$0 % 3, $0 / 3] } == expected)
            // Alpha of three channels has no meaning.
            let opaque = try decode(file(3, 3, channels: 3, chunks))
            #expect((0..<9).map { opaque[$0 % 3, $0 / 3].w } == [UInt8](repeating: 255, count: 9))
        }

        /// A statement that light is linear has no effect.
        @Test func linear() throws {
            let shown = try decode(file(1, 1, space: 1, [0xFF, 0, 55, 255, 55]))
            #expect(shown[0, 0] == SIMD4(0, 55, 255, 55))
        }

        @Test func invalid() {
            #expect(failure(file(1, 1, channels: 5, [0xC0])) == .decodeFailed)
            #expect(failure(file(1, 1, space: 2, [0xC0])) == .decodeFailed)
            #expect(failure(file(0, 1, [0xC0])) == .emptyImage)
            #expect(failure(file(255, 255, [0xFD])) == .truncated)
            #expect(failure(Array("qoif".utf8) + [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 1, 4, 0, 0xFD]) == .tooManyPixels)
            #expect(failure(Array("qoif".utf8)) == .truncated)
        }
    }

    struct TGATests {
        private let picture = TestPicture.gradient(width: 7, height: 5, transparent: true)

        /// A file of `kind` whose rows begin in any corner: bit 5 of the descriptor is set for the top, bit 4 for the right.
        private func file(
            _ kind: UInt8, bits: UInt8, descriptor: UInt8 = 0x20, palette: [UInt8] = [], colorBits: UInt8 = 0,
            first: UInt8 = 0,
            comment: [UInt8] = [], isPacked: Bool = false, _ pixel: (Int, Int) -> [UInt8]
        ) -> [UInt8] {
            var pixels: [[UInt8]] = []
            for row in 0..<5 {
                for column in 0..<7 {
                    pixels.append(
                        pixel(descriptor & 0x10 == 0 ? column : 6 - column, descriptor & 0x20 == 0 ? 4 - row : row))
                }
            }
            let colors = palette.isEmpty ? 0 : palette.count / ((Int(colorBits) + 7) / 8)
            return [UInt8(comment.count), palette.isEmpty ? 0 : 1, kind, first, 0] + TestBitmap.bytes(colors, 2)
                + [colorBits, 0, 0, 0, 0, 7, 0, 5, 0, bits, descriptor] + comment + palette
                + (isPacked ? Self.packed(pixels) : Array(pixels.joined()))
        }

        /// Runs of equal pixels and packets of up to ten others, which do not end with rows.
        private static func packed(_ pixels: [[UInt8]]) -> [UInt8] {
            var (result, index) = ([UInt8](), 0)
            while index < pixels.count {
                let run = pixels[index...].prefix { $0 == pixels[index] }.prefix(128).count
                let count = run > 1 ? run : min(10, pixels.count - index)
                result += [UInt8(count - 1) | (run > 1 ? 128 : 0)]
                result += run > 1 ? pixels[index] : Array(pixels[index..<index + count].joined())
                index += count
            }
            return result
        }

        private func bgra(_ x: Int, _ y: Int) -> [UInt8] {
            let pixel = picture[x, y]
            return [pixel.z, pixel.y, pixel.x, pixel.w]
        }

        @Test(arguments: [0, 0x10, 0x20, 0x30] as [UInt8], [false, true]) func colors(_ corner: UInt8, _ isPacked: Bool)
            throws
        {
            let kind: UInt8 = isPacked ? 10 : 2
            let opaque = TestPicture.gradient(width: 7, height: 5)
            #expect(try decode(file(kind, bits: 32, descriptor: corner | 8, isPacked: isPacked, bgra)) == picture)
            #expect(
                try decode(file(kind, bits: 32, descriptor: corner, comment: [1, 2], isPacked: isPacked, bgra))
                    == opaque)
            #expect(
                try decode(
                    file(kind, bits: 24, descriptor: corner, isPacked: isPacked) { Array(bgra($0, $1).prefix(3)) })
                    == opaque)
            // Rows that are equal, for runs across them.
            let flat = try decode(
                file(kind, bits: 24, descriptor: corner, isPacked: isPacked) { x, y in [7, 8, UInt8(y / 2)] })
            #expect(flat == TestPicture(width: 7, height: 5) { _, y in SIMD4(UInt8(y / 2), 8, 7, 255) })
        }

        @Test(arguments: [15, 16] as [UInt8], [false, true]) func fiveBits(_ bits: UInt8, _ isPacked: Bool) throws {
            let shown = try decode(
                file(isPacked ? 10 : 2, bits: bits, isPacked: isPacked) { x, _ in
                    TestBitmap.bytes(x | 31 << 10 | 0x8000, 2)
                })
            #expect(shown[6, 4] == SIMD4(255, 0, 49, 255))
        }

        @Test(arguments: [false, true]) func gray(_ isPacked: Bool) throws {
            let kind: UInt8 = isPacked ? 11 : 3
            let shown = try decode(file(kind, bits: 8, isPacked: isPacked) { x, y in [UInt8(x * 10 + y)] })
            #expect(shown[6, 3] == SIMD4(63, 63, 63, 255))
            let clear = try decode(
                file(kind, bits: 16, descriptor: 0x28, isPacked: isPacked) { x, y in [UInt8(x), UInt8(y)] })
            #expect(clear[6, 3] == SIMD4(6, 6, 6, 3))
        }

        @Test(arguments: [16, 24, 32] as [UInt8], [false, true]) func palettes(_ colorBits: UInt8, _ isPacked: Bool)
            throws
        {
            let palette = (UInt8(0)..<7).flatMap { index -> [UInt8] in
                colorBits == 16
                    ? [index, 0] : Array([index, 50, 60, 70].prefix(Int(colorBits) / 8))
            }
            let shown = try decode(
                file(
                    isPacked ? 9 : 1, bits: 8, descriptor: 0x28, palette: palette, colorBits: colorBits, first: 3,
                    isPacked: isPacked
                ) { x, _ in [UInt8(x + 2)] })
            // The first index is below the palette's.
            #expect(shown[0, 0] == SIMD4(0, 0, 0, 255))
            let expected: SIMD4<UInt8> =
                colorBits == 16 ? SIMD4(0, 0, 41, 255) : SIMD4(60, 50, 5, colorBits == 32 ? 70 : 255)
            #expect(shown[6, 4] == expected)
        }

        /// A footer of version 2.0 changes nothing.
        @Test func footer() throws {
            let footer: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0] + Array("TRUEVISION-XFILE.\0".utf8)
            #expect(try decode(file(2, bits: 32, descriptor: 0x28, bgra) + footer) == picture)
        }
    }

    /// Truncated and damaged files of these formats.
    struct SimpleDamageTests {
        static let samples: [DamageTests.Sample] = {
            let picture = TestPicture.gradient(width: 9, height: 6, transparent: true)
            let colors: [UInt8] = (0..<256).flatMap { [UInt8($0), 1, 2, 0] }
            let runs: [UInt8] = (0..<6).flatMap { [9, UInt8($0), 0, 0] } + [0, 1]
            let bgra = { (x: Int, y: Int) -> [UInt8] in
                let pixel = picture[x, y]
                return [pixel.z, pixel.y, pixel.x, pixel.w]
            }
            let pixels = (0..<54).map { bgra($0 % 9, $0 / 9) }
            let head: [UInt8] = [0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 6, 0, 32, 0x28]
            let packets: [UInt8] = (0..<6).flatMap { row -> [UInt8] in [128 + 8] + pixels[9 * row] }
            let chunks = pixels.flatMap { [0xFF, $0[2], $0[1], $0[0], $0[3]] as [UInt8] }
            let qoi: [UInt8] = Array("qoif".utf8) + [0, 0, 0, 9, 0, 0, 0, 6, 4, 0] + chunks
            let tga: [UInt8] = head + pixels.joined()
            let packed: [UInt8] = [0, 0, 10] + head[3...] + packets
            let sample = { (name: String, file: [UInt8]) in DamageTests.Sample(name, file) }
            return [
                sample(
                    "BMP",
                    TestBitmap.file(TestBitmap.header(9, 6, bits: 24), TestBitmap.rows(9, 6, bits: 24) { $0 * $1 })),
                sample(
                    "BMP, runs",
                    TestBitmap.file(TestBitmap.header(9, 6, bits: 8, compression: 1), palette: colors, runs)),
                sample(
                    "ICO",
                    TestBitmap.icon([TestBitmap.iconImage(picture), TestPicture.gradient(width: 3, height: 2).png])),
                sample(
                    "ICO, PNG",
                    TestBitmap.icon([TestBitmap.iconImage(.gradient(width: 3, height: 2), bits: 24), picture.png])),
                sample("P4", Array("P4 9 6\n".utf8) + [UInt8](repeating: 0x99, count: 12)),
                sample("P6", Array("P6 9 6 255\n".utf8) + [UInt8](repeating: 99, count: 162)),
                sample("P3", Array(("P3 9 6 9\n" + String(repeating: "7 8 9\n", count: 54)).utf8)),
                sample("QOI", qoi + [0, 0, 0, 0, 0, 0, 0, 1]),
                sample("TGA", tga),
                sample("TGA, runs", packed),
            ]
        }()

        private let job = DecodeJob(id: 1, transform: Transform(alpha: .straight, acceptsDamage: true))

        /// A shorter file is `truncated`, or has all pixels. If damage is accepted, the pixels that there are are right.
        @Test(arguments: samples) func truncatedAnywhere(_ sample: DamageTests.Sample) throws {
            let whole = try decode(sample.file)
            for count in 1..<sample.file.count {
                let cut = Array(sample.file.prefix(count))
                guard ImageFormat(sniffing: cut) != nil else { continue }
                if let code = failure(cut) {
                    #expect(code == .truncated, "cut to \(count) of \(sample.file.count) bytes")
                } else {
                    #expect(try decode(cut) == whole, "cut to \(count) of \(sample.file.count) bytes")
                }
                guard let part = try? decode(cut, for: job), part.geometry == whole.geometry else { continue }
                for pixel in stride(from: 0, to: whole.bytes.count, by: 4) where part.bytes[pixel + 3] != 0 {
                    #expect(
                        part.bytes[pixel..<pixel + 4] == whole.bytes[pixel..<pixel + 4],
                        "\(count) bytes, pixel \(pixel / 4)")
                }
            }
        }

        /// Without its last bytes, a file has the other pixels.
        @Test(arguments: samples) func damageIsAccepted(_ sample: DamageTests.Sample) throws {
            let whole = try decode(sample.file)
            let part = try decode(Array(sample.file.dropLast(11)), for: job)
            let visible = stride(from: 3, to: part.bytes.count, by: 4).count { part.bytes[$0] != 0 }
            #expect(visible > 0)
            if part.geometry == whole.geometry { #expect(visible < 54) }
        }

        @Test(arguments: samples) func flippedBits(_ sample: DamageTests.Sample) { DamageTests().flippedBits(sample) }
    }
#endif
