#if !WITHOUT_AVIF
    @testable import ImageDecoding
    @testable import imgworker_avif

    /// The frames of AVIF sequences, their timing, and their limits. `AnimationTests` processes them like others.
    struct AVIFSequenceTests {
        private static let pixels = 37 * 29

        private static func pictures(_ count: Int, alpha: Bool = false) -> [TestPicture] {
            (0..<count).map { index in
                TestPicture(width: 37, height: 29) { x, y in
                    let (x, y) = (x + 3 * index, y + index * index)
                    return SIMD4(
                        UInt8(x * 5 % 256), UInt8(y * 7 % 256), UInt8(x * y % 256),
                        alpha ? UInt8((x + y) * 3 % 256) : 255)
                }
            }
        }

        private static func file(_ count: Int, _ change: (inout TestAVIF) -> Void = { _ in }) throws -> [UInt8] {
            let avif = TestAVIF(change)
            let file = avif.sequence(pictures(count, alpha: avif.hasAlpha))
            try #require(!file.isEmpty)
            return file
        }

        /// Frames that refer to others, of sides that are odd.
        @Test(arguments: [false, true], [0, 1, 3]) func losslessFrames(_ alpha: Bool, _ keyInterval: Int) throws {
            let bytes = try Self.file(7) { ($0.hasAlpha, $0.keyInterval) = (alpha, keyInterval) }
            let pictures = Self.pictures(7, alpha: alpha)
            #expect(try Decoded(bytes).pictures == pictures)
            for index in pictures.indices {
                #expect(try Decoded(bytes, .one(index)).pictures == [pictures[index]])
            }
            #expect(failure(bytes, .one(7))?.code == .badRequest)
        }

        /// Every frame equals that of libavif, which decodes it after all before it.
        @Test(arguments: [(8, 420, 0), (8, 422, 2), (10, 420, 3), (12, 444, 0), (10, 400, 2)])
        func lossyFrames(_ depth: Int, _ sampling: Int, _ keyInterval: Int) throws {
            let avif = TestAVIF {
                ($0.depth, $0.sampling, $0.keyInterval) = (depth, sampling, keyInterval)
                ($0.matrix, $0.quantizer, $0.hasAlpha, $0.frames) = (6, 30, true, 5)
            }
            let samples = Self.pictures(5, alpha: true).flatMap { $0.bytes.map { UInt16($0) << (depth - 8) } }
            let bytes = avif.file(width: 37, height: 29, samples)
            let shown = (0..<5).map { TestAVIF.decoded(bytes, width: 37, height: 29, index: $0) }
            #expect(Set(shown.map { $0?.bytes }).count == 5)
            #expect(try Decoded(bytes).pictures == shown)
            for index in shown.indices {
                #expect(try Decoded(bytes, .one(index)).pictures == [shown[index]])
            }
        }

        @Test func theFirstFrameIsShown() throws {
            let bytes = try Self.file(3)
            #expect(try plan(bytes).header.frameCount == 3)
            #expect(try decode(bytes) == Self.pictures(1)[0])
        }

        @Test func durations() throws {
            let bytes = try Self.file(6) { ($0.timescale, $0.durations) = (600, [6, 7, 60, 61, 1, 600_000]) }
            #expect(try Decoded(bytes).timing?.delaysMs == [100, 12, 100, 102, 100, 1_000_000])
            #expect(try Decoded(Self.file(1) { $0.frames = 1 }).timing == .still)
        }

        /// Without an edit list a sequence is endless. One that repeats is shown until the track's duration is over.
        @Test func loops() throws {
            let bytes = try Self.file(2) { $0.durations = [100] }
            #expect(try Decoded(bytes).timing?.loops == 0)
            let edited = { (flags: UInt8, track: Int, part: Int) in
                TestBoxes.changing(bytes) { type, content in
                    guard type == "tkhd" else { return nil }
                    // Version 1, with a duration of 64 bits.
                    #expect(content[0] == 1)
                    let high = track == 0xFFFF_FFFF ? track : 0
                    let header = content[..<28] + big(high, 4) + big(track, 4) + content[36...]
                    let list = big(1, 4) + big(part, 4) + zeros(4) + [0, 1, 0, 0]
                    return TestBoxes.box(type, Array(header))
                        + TestBoxes.box("edts", TestBoxes.full("elst", flags: flags, list))
                }
            }
            #expect(try Decoded(edited(1, 600, 200)).timing?.loops == 3)
            #expect(try Decoded(edited(1, 601, 200)).timing?.loops == 4)
            #expect(try Decoded(edited(1, 100, 200)).timing?.loops == 1)
            #expect(try Decoded(edited(0, 600, 200)).timing?.loops == 1)
            #expect(try Decoded(edited(1, 600, 0)).timing?.loops == 1)
        }

        @Test func pixelsOfAllFramesAreLimited() throws {
            let bytes = try Self.file(6) { ($0.keyInterval, $0.quantizer, $0.matrix) = (3, 20, 6) }
            let pixels = Self.pixels
            #expect(failure(bytes, .all, maxPixels: 6 * pixels) == nil)
            #expect(failure(bytes, .all, maxPixels: 6 * pixels - 1)?.code == .tooManyPixels)
            #expect(failure(bytes, .all, maxSourcePixels: 6 * pixels - 1)?.code == .tooManyPixels)
            // From the last key frame on.
            #expect(failure(bytes, .one(2), maxSourcePixels: 3 * pixels) == nil)
            #expect(failure(bytes, .one(2), maxSourcePixels: 3 * pixels - 1)?.code == .tooManyPixels)
            #expect(failure(bytes, .one(4), maxSourcePixels: 2 * pixels) == nil)
            #expect(failure(bytes, .one(4), maxSourcePixels: 2 * pixels - 1)?.code == .tooManyPixels)
            #expect(failure(bytes, .one(3), maxPixels: pixels, maxSourcePixels: pixels) == nil)
        }

        @Test func `the frames that others refer to are part of the working memory`() throws {
            let bytes = try Self.file(3)
            let memory = { (frames: FrameSelection) in
                try plan(bytes, with: Transform(frames: frames)).workingBytes
            }
            // 128 × 128 pixels in 4:4:4.
            #expect(try memory(.all) > (try memory(.one(0))) + 2 * 3 * 128 * 128)
            #expect(try memory(.one(2)) == (try memory(.all)))
        }

        /// The estimate holds for a sequence whose frames refer to many others.
        @Test(arguments: [false, true]) func memoryIsWithinTheEstimate(_ alpha: Bool) throws {
            let pictures = (0..<14).map { index in
                TestPicture(width: 640, height: 512) { x, y in
                    let noise = UInt8(truncatingIfNeeded: (x &* 7919 &+ y &* 104_729 &+ index &* 31) >> 3)
                    return SIMD4(UInt8((x + 9 * index) % 256), noise, UInt8(y % 256), alpha ? noise : 255)
                }
            }
            let bytes = TestAVIF { $0.hasAlpha = alpha }.sequence(pictures)
            let worker = try TestWorker(family: .avif)
            let (file, job) = (try memoryFile(bytes, isSealed: true), DecodeJob(Transform(frames: .all)))
            let idle = try worker.kilobytes(of: "VmHWM")
            let plan = try worker.run(job, file).plan
            let peak = (try worker.kilobytes(of: "VmHWM") - idle) << 10
            // Mapped bytes of the file count for the process, too.
            #expect(peak <= plan.workingBytes + bytes.count, "\(peak) of \(plan.workingBytes)")
        }

        @Test func truncatedFiles() throws {
            let pictures = Self.pictures(4, alpha: true)
            let bytes = try Self.file(4) { ($0.hasAlpha, $0.keyInterval) = (true, 2) }
            var found = Set<Int>()
            for count in stride(from: 40, to: bytes.count, by: 7) {
                let cut = Array(bytes.prefix(count))
                #expect(failure(cut, .all)?.code == .truncated, "\(count)")
                for index in [0, 3] {
                    do {
                        #expect(try Decoded(cut, .one(index)).pictures == [pictures[index]])
                        found.insert(index)
                    } catch let error as WireError {
                        #expect(error.code == .truncated, "\(index) of \(count) bytes: \(error.message)")
                    }
                }
            }
            #expect(found == [0])
        }

        @Test func manyFrames() throws {
            let bytes = try Self.file(2) { $0.keyInterval = 1 }
            // The first frame again and again.
            let repeated = { (count: Int, durations: Int) in
                TestBoxes.changing(bytes) { type, content in
                    switch type {
                    case "stco":
                        let places = [[UInt8]](repeating: Array(content[8..<12]), count: count).joined()
                        return TestBoxes.full(type, big(count, 4) + places)
                    case "stsc":
                        return TestBoxes.full(type, [1, 1, 1, 1].flatMap { big($0, 4) })
                    case "stsz":
                        return TestBoxes.full(type, Array(content[12..<16]) + big(count, 4))
                    case "stts":
                        let runs = (0..<durations).flatMap { big(1, 4) + big(20 + $0 % 2, 4) }
                        return TestBoxes.full(type, big(durations, 4) + runs)
                    default: return nil
                    }
                }
            }
            let some = try Decoded(repeated(300, 300))
            #expect(some.pictures == [TestPicture](repeating: Self.pictures(1)[0], count: 300))
            #expect(some.timing?.delaysMs == (0..<300).map { 20 + $0 % 2 })
            #expect(failure(repeated(10_001, 1), .all)?.code == .tooManyPixels)
            // Each frame's time is the sum of all durations before it.
            let long = repeated(20_000, 5000)
            #expect(failure(long, .one(0)) == nil)
            #expect(failure(long, .one(19_999), maxSourcePixels: .max)?.code == .tooManyPixels)
            // The tables have more than 128 KiB.
            #expect(failure(repeated(40_000, 1), .one(0))?.code == .tooManyPixels)
        }

        @Test func `frames that are decoded and never shown`() throws {
            let still = TestAVIF().file(Self.pictures(1)[0])
            for (file, frames) in try [(still, 1), (Self.file(2), 2)] {
                let hiding = { (count: Int) in Self.appending(count, to: file) }
                #expect(try Decoded(hiding(0)).pictures == Self.pictures(frames))
                #expect(try Decoded(hiding(15)).pictures == Self.pictures(frames))
                #expect(failure(hiding(16), .all)?.code == .tooManyPixels)
                #expect(failure(hiding(15), .all, maxSourcePixels: (15 + frames) * Self.pixels) == nil)
                let error = failure(hiding(15), .all, maxSourcePixels: (15 + frames) * Self.pixels - 1)
                #expect(error?.code == .tooManyPixels)
            }
            let memory = { (count: Int) in try plan(Self.appending(count, to: still)).workingBytes }
            #expect(try memory(1) > (try memory(0)) + 3 * 128 * 128)
            // The codec holds ten frames at most; the rest is the file itself.
            #expect(try memory(15) == (try memory(9)) + 6 * 3)
        }

        /// Appends units that are frames to the last sample of `file`, whose pixels end it.
        private static func appending(_ count: Int, to file: [UInt8]) -> [UInt8] {
            let units = repeated([0x32, 1, 0], count)
            var bytes = file
            guard let pixels = bytes.places(of: "mdat").last else { return [] }
            let size = bytes.count - pixels + 4
            bytes.replaceSubrange(pixels - 4..<pixels, with: big(size + units.count, 4))
            // The last sample of a sequence, or the extent of an item that ends the file.
            for place in bytes.indices.dropLast(24) {
                if bytes[place...].starts(with: "stsz".utf8) {
                    let last = place + 16 + 4 * (TestBoxes.number(bytes[(place + 12)...]) - 1)
                    let size = TestBoxes.number(bytes[last...])
                    bytes.replaceSubrange(last..<last + 4, with: big(size + units.count, 4))
                    return bytes + units
                }
            }
            for place in bytes.indices.dropLast(24) {
                let (start, length) = (TestBoxes.number(bytes[place...]), TestBoxes.number(bytes[(place + 4)...]))
                if start > pixels, length > 0, start + length == file.count {
                    bytes.replaceSubrange(place + 4..<place + 8, with: big(length + units.count, 4))
                    return bytes + units
                }
            }
            return []
        }

        @Test func damagedTables() throws {
            let bytes = try Self.file(3) { $0.hasAlpha = true }
            // A table that occurs twice, one that leaves its box, and alpha with fewer samples.
            for type in ["stsz", "stco", "stsc", "stts", "tkhd"] {
                let twice = TestBoxes.changing(bytes) { name, content in
                    name == type ? TestBoxes.box(name, content) + TestBoxes.box(name, content) : nil
                }
                #expect([.decodeFailed, .truncated].contains(failure(twice, .all)?.code), "\(type)")
            }
            for type in ["stsz", "stco", "stsc"] {
                let long = TestBoxes.changing(bytes) { name, content in
                    guard name == type else { return nil }
                    let count = type == "stsz" ? 8 : 4
                    return TestBoxes.box(name, content[..<count] + [0, 0, 99, 99] + content[(count + 4)...])
                }
                #expect([.decodeFailed, .truncated].contains(failure(long, .all)?.code), "\(type)")
            }
            var tracks = 0
            let short = TestBoxes.changing(bytes) { name, content in
                guard name == "stsc" else { return nil }
                tracks += 1
                return tracks == 2 ? TestBoxes.full(name, [1, 1, 2, 1].flatMap { big($0, 4) }) : nil
            }
            #expect(try Decoded(short, .one(1)).pictures == [Self.pictures(2, alpha: true)[1]])
            #expect(failure(short, .all)?.code == .decodeFailed)
        }

        /// A frame that the container falsely calls a key frame is decoded after those before it, like all others.
        @Test func falseKeyFrames() throws {
            let bytes = TestBoxes.changing(try Self.file(5) { ($0.quantizer, $0.matrix) = (20, 6) }) { type, _ in
                type != "stss" ? nil : TestBoxes.full(type, [5, 1, 2, 3, 4, 5].flatMap { big($0, 4) })
            }
            let all = try Decoded(bytes).pictures
            for index in 0..<5 { #expect(try Decoded(bytes, .one(index)).pictures == [all[index]]) }
        }

        @Test func encodedFrame() throws {
            let job = DecodeJob(Transform(frames: .one(2)), encoding: Encoding(.png))
            let image = try EncodedImage(try ImageSource(copying: try Self.file(3)), for: job)
            // Grows with what is written.
            let output = try WritableBuffer(name: "test").descriptor
            _ = try image.decode(into: output)
            #expect(try decode(try contents(of: output)) == Self.pictures(3)[2])
        }

        @Test func confined() throws {
            let worker = try TestWorker(family: .avif)
            let bytes = try Self.file(4) { ($0.hasAlpha, $0.depth, $0.sampling, $0.matrix) = (true, 8, 420, 6) }
            let job = DecodeJob(Transform(frames: .all))
            let (plan, result, _) = try worker.run(job, try memoryFile(bytes, isSealed: true))
            #expect(plan.outputBytes(job.transform, nil) == 4 * Self.pixels * 4)
            #expect(result.timing?.delaysMs.count == 4)
            #expect(try worker.kilobytes(of: "Threads") == 1)
        }
    }

    /// Counts frames of samples made by hand.
    struct AV1SampleTests {
        private func sample(_ bytes: [UInt8], cut: [Int] = [], units: Int = 100) -> AV1Sample? {
            var progress = AV1Sample.Progress(units: units)
            let places = [0] + cut + [bytes.count]
            return AV1Sample(bytes.span, zip(places, places.dropFirst()).map { $0..<$1 }, &progress)
        }

        /// A unit with its size: its type, and the first bytes of its content.
        private func unit(_ type: UInt8, _ content: [UInt8], layer: UInt8? = nil) -> [UInt8] {
            var unit: [UInt8] = [type << 3 | (layer == nil ? 2 : 6)]
            if let layer { unit.append(layer << 3) }
            return unit + [UInt8(content.count)] + content
        }

        @Test func frames() throws {
            let (sequence, key) = (unit(1, [0, 0]), unit(6, [0x10, 1, 2]))
            let (inter, hidden, again) = (unit(6, [0x30, 9]), unit(3, [0x20, 9]), unit(3, [0x80]))
            let start = try #require(sample(unit(2, []) + sequence + key))
            #expect((start.frames, start.shownFrames) == (1, 1))
            #expect(start.startsWithKeyFrame && start.isSingle)
            // Without a sequence header, or after another frame, a key frame does not start anew.
            #expect(try #require(sample(key)).startsWithKeyFrame == false)
            #expect(try #require(sample(sequence + hidden + key)).startsWithKeyFrame == false)
            let several = try #require(sample(hidden + unit(4, [1, 2, 3]) + hidden + inter))
            #expect((several.frames, several.shownFrames, several.startsWithKeyFrame) == (3, 1, false))
            #expect(several.isSingle)
            #expect(try #require(sample(inter + again)).isSingle == false)
            #expect(try #require(sample(hidden)).isSingle == false)
            #expect(try #require(sample(unit(6, [0x30], layer: 1))).hasLayers)
            #expect(try #require(sample(unit(6, [0x30], layer: 0))).hasLayers == false)
            // Reduced headers: every frame is a key frame that is shown.
            let reduced = try #require(sample(unit(1, [0x18]) + unit(6, [0x00])))
            #expect(reduced.startsWithKeyFrame && reduced.isSingle)
        }

        @Test func unitsAreBounded() throws {
            let frame = unit(6, [0x20])
            let most = repeated(frame, AV1Sample.mostFrames)
            #expect(sample(most)?.frames == AV1Sample.mostFrames)
            #expect(sample(most + frame) == nil)
            #expect(sample(most, units: AV1Sample.mostFrames)?.frames == AV1Sample.mostFrames)
            #expect(sample(most, units: AV1Sample.mostFrames - 1) == nil)
        }

        @Test func `bytes that are no unit end the sample; the last unit need not state its size`() throws {
            let frame = unit(6, [0x30, 9])
            #expect(try #require(sample([])).frames == 0)
            #expect(try #require(sample(frame + [6 << 3, 0x30, 1, 2])).frames == 2)
            let long = [UInt8](repeating: 0xFF, count: 9)
            for damage: [UInt8] in [
                [6 << 3 | 2, 9, 0x30], [6 << 3 | 2], [6 << 3 | 6], [6 << 3 | 2, 0],
                // A size of nine bytes, and the largest of eight.
                [6 << 3 | 2] + long + [1], [6 << 3 | 2] + long.dropLast(2) + [0x7F, 1],
            ] { #expect(sample(frame + damage)?.frames == 1, "\(damage)") }
            #expect(try #require(sample(frame + [6 << 3 | 2, 0x82, 0x80, 0, 0x30, 9] + frame)).frames == 3)
        }

        @Test func `the data of an item may lie in several pieces`() throws {
            let bytes = unit(1, [0, 0]) + unit(6, [0x10, 1, 2]) + unit(3, [0x20]) + unit(6, [0x30, 1])
            let whole = try #require(sample(bytes))
            #expect(whole.frames == 3)
            for cut in 0...bytes.count {
                #expect(sample(bytes, cut: [cut]) == whole)
                #expect(sample(bytes, cut: [cut, cut, min(cut + 1, bytes.count)]) == whole)
            }
        }
    }
#endif
