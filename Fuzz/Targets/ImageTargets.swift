import CImageCodecs
import IPCProtocol
import LinuxSystem
import SharedCache
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

#if !WITHOUT_AVIF
    @testable import imgworker_avif
#endif

/// Reads the metadata of one file as each of the formats.
func fuzzMetadata(_ bytes: [UInt8]) {
    for format in ImageFormat.allCases {
        var position = 0
        let metadata = ContainerMetadata(format, bytes.span) {
            expect($0 > position, "a walk advances")
            position = $0
        }
        if let exif = metadata.exif {
            expect(exif.lowerBound >= 0 && exif.upperBound <= bytes.count, "EXIF is in the file")
        }
        _ = metadata.orientation(in: bytes.span)
        for frame in Animation(format, bytes.span)?.frames ?? [] {
            expect(frame.data.upperBound <= bytes.count, "a frame is in the file")
        }
    }
    _ = Orientation(exif: bytes.span)
}

#if !WITHOUT_AVIF
    /// Reads the boxes and tables of an AVIF, and counts the frames of samples: of those found, and of the bytes
    /// themselves. The first byte says how samples are divided.
    func fuzzAVIFSamples(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let file = Array(bytes.dropFirst())
        let inFile = { (range: Range<Int>) in range.lowerBound >= 0 && range.upperBound <= file.count }
        if let sequence = AVIFSequence(file.span) {
            let animation = sequence.animation
            expect(animation.frames.allSatisfy { inFile($0.data) && $0.delayMs > 10 }, "a frame is in the file")
            expect(sequence.alpha.allSatisfy(inFile), "alpha is in the file")
            expect(sequence.alpha.isEmpty || sequence.alpha.count == animation.frames.count, "each frame has alpha")
            expect(animation.frames.count <= animation.announced ?? 0, "no more frames than announced")
            expect(animation.loops >= 0, "a number of repetitions")
            for frame in animation.frames.prefix(100) { count([frame.data]) }
        }
        for item in AVIFItems(file.span)?.items ?? [] {
            expect(item.allSatisfy(inFile), "an item is in the file")
            count(item)
        }
        count([0..<file.count])

        func count(_ pieces: [Range<Int>]) {
            let step = 1 + Int(first)
            let divided = pieces.flatMap { piece in
                stride(from: piece.lowerBound, to: piece.upperBound, by: step).map {
                    $0..<min($0 + step, piece.upperBound)
                }
            }
            var (progress, other) = (AV1Sample.Progress(units: 1 << 16), AV1Sample.Progress(units: 1 << 16))
            let sample = AV1Sample(file.span, pieces, &progress)
            expect(sample == AV1Sample(file.span, divided, &other), "the division of a sample has no effect")
            expect(progress == other, "the division of a sample has no effect on the next one")
            expect(sample?.frames ?? 0 <= AV1Sample.mostFrames, "the number of frames is bounded")
            expect(sample?.shownFrames ?? 0 <= sample?.frames ?? 0, "a frame that is shown is a frame")
        }
    }
#endif

/// Decodes a PNG whose CRCs are corrected first, because chunks with a wrong CRC are not read.
func fuzzPNG(_ bytes: [UInt8]) { fuzzImage(withChecksums(bytes), .png) }

/// Decodes parts of a file of any format: longer parts have later stages.
func fuzzPart(_ bytes: [UInt8]) {
    let file = ImageFormat(sniffing: bytes.prefix(16).map { $0 }) == .png ? withChecksums(bytes) : bytes
    var last = 0
    for quarter in 1...4 {
        for transform in [Transform(alpha: .straight), Transform(width: 7)] {
            let part = Array(file.prefix(file.count * quarter / 4))
            guard !part.isEmpty, let stage = decoded(part, transform, isPart: true)?.stage else { continue }
            expect(stage >= last, "stages do not decrease")
            last = stage
        }
    }
}

/// Decodes all frames at once, and single frames, which must be equal.
func fuzzAnimation(_ bytes: [UInt8]) {
    let file = ImageFormat(sniffing: bytes.prefix(32).map { $0 }) == .png ? withChecksums(bytes) : bytes
    guard let all = decoded(file, Transform(alpha: .straight, frames: .all)) else { return }
    let count = all.pixels.count / all.geometry.bytes
    for index in [0, count / 2, count - 1] {
        guard let one = decoded(file, Transform(alpha: .straight, frames: .one(index))) else {
            return expect(false, "a frame can be decoded separately")
        }
        let place = index * one.pixels.count
        expect(
            all.pixels[place..<place + one.pixels.count].elementsEqual(one.pixels),
            "a separate frame equals that of all")
    }
    expect(decoded(file, Transform(frames: .one(count))) == nil, "there is no frame beyond the last")
}

private func withChecksums(_ bytes: [UInt8]) -> [UInt8] {
    var file = bytes
    var position = 8
    while position + 12 <= file.count {
        let length = file[position..<position + 4].reduce(0) { $0 << 8 | Int($1) }
        let end = position + 8 + length
        guard end + 4 <= file.count else { break }
        let sum = unsafe file[position + 4..<end].withUnsafeBufferPointer {
            unsafe codec_png_checksum($0.baseAddress, $0.count)
        }
        for index in 0..<4 { file[end + index] = UInt8(truncatingIfNeeded: sum >> (24 - 8 * UInt32(index))) }
        position = end + 4
    }
    return file
}

/// Decodes a complete file with several transforms, also as far as its damage permits. The results must be equal in
/// both byte orders, and after lossless encoding and decoding.
func fuzzImage(_ bytes: [UInt8], _ format: ImageFormat) {
    guard ImageFormat(sniffing: bytes.prefix(ImageFormat.sniffedBytes)) == format else { return }
    let transforms = [
        Transform(alpha: .straight), Transform(pixelFormat: .bgra8, alpha: .straight), Transform(width: 7),
        Transform(width: 40, height: 9, fit: .cover), Transform(byteLimit: 256),
    ]
    let results = transforms.map { decoded(bytes, $0) }
    let tolerant = decoded(bytes, Transform(alpha: .straight, acceptsDamage: true))
    _ = decoded(bytes, Transform(width: 7, pixelFormat: .rgb8, acceptsDamage: true))
    _ = decoded(bytes, Transform(pixelFormat: .gray8, frames: .all, acceptsDamage: true))
    guard let (geometry, pixels, _) = results[0] else {
        expect(results[1] == nil, "the byte order does not affect whether an image can be decoded")
        return
    }
    expect(tolerant?.pixels == pixels, "a sound image is the same if damage is accepted")
    guard let other = results[1] else { return expect(false, "the other byte order can be decoded as well") }
    let isSame = zip(pixels, other.pixels).enumerated().allSatisfy { index, pair in
        index % 4 % 2 == 1 ? pair.0 == pair.1 : pair.0 == other.pixels[index ^ 2]
    }
    expect(isSame, "results differ only in byte order")
    guard let file = try? WritableBuffer(name: "fuzz").descriptor, let raster = try? PixelMemory(count: pixels.count)
    else { return }
    unsafe raster.bytes.copyBytes(from: pixels)
    let encoder = ImageEncoder(encoding: Encoding(.png), geometry: geometry, pixelFormat: .rgba8, alpha: .straight)
    guard (try? encoder.encode(raster, to: ResultFile(file: file))) != nil else {
        return expect(false, "a raster can be encoded")
    }
    let again = (try? file.read(file.size(), at: 0)).flatMap { decoded($0, transforms[0]) }
    expect(again?.pixels == pixels, "an encoded raster is decoded unchanged")
}

/// Returns the result of decoding; nil if it fails with an expected error code.
private func decoded(
    _ bytes: [UInt8], _ transform: Transform, isPart: Bool = false
) -> (geometry: PixelGeometry, pixels: [UInt8], stage: Int?)? {
    // Small limits, for short runs.
    let job = DecodeJob(
        id: 0, transform: transform, maxPixels: 1 << 16, maxSourcePixels: 1 << 18, maxWorkingBytes: 32 << 20)
    do {
        let image = try EncodedImage(try ImageSource(copying: bytes, isPart: isPart), for: job, allCodecs)
        let result = image.plan.result
        expect(result.pixels <= job.maxPixels, "a result is within its limit")
        expect(image.plan.workingBytes <= job.maxWorkingBytes, "working memory is within its limit")
        let frames = transform.frames.count(of: image.plan.header.frameCount)
        expect(result.pixels * frames <= job.maxPixels, "all frames are within their limit")
        let size = image.plan.outputBytes(transform, nil)
        let output = try WritableBuffer(name: "fuzz", size: size).descriptor
        _ = try image.decode(into: output)
        return (result, try output.read(output.size(), at: 0), image.plan.stage)
    } catch let error as WireError {
        let codes: [ErrorCode] = [
            .truncated, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage, .outOfMemory,
            .badRequest,
        ]
        expect(codes.contains(error.code), "decoding fails with an expected error code: \(error)")
        return nil
    } catch {
        fatalError("\(error)")
    }
}
