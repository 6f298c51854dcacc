import IPCProtocol
import LinuxSystem
import SharedCache
import WorkerProtocol

@testable import imgworker

/// Everything that is read beside pixels, from one file as each of the formats.
func fuzzMetadata(_ bytes: [UInt8]) {
    for format in ImageFormat.allCases {
        var position = 0
        let metadata = ContainerMetadata(format, bytes.span) {
            expect($0 > position, "a walk goes forward")
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

/// A PNG file whose chunks are given right checksums, without which its bytes are never looked at.
func fuzzPNG(_ bytes: [UInt8]) { fuzzImage(withChecksums(bytes), .png) }

/// A file of any kind that is still on its way: the more of it is there, the further its picture has come.
func fuzzPart(_ bytes: [UInt8]) {
    let file = ImageFormat(sniffing: bytes.prefix(16).map { $0 }) == .png ? withChecksums(bytes) : bytes
    var last = 0
    for quarter in 1...4 {
        for transform in [Transform(alpha: .straight), Transform(width: 7)] {
            let part = Array(file.prefix(file.count * quarter / 4))
            guard !part.isEmpty, let stage = decoded(part, transform, isPart: true)?.stage else { continue }
            expect(stage >= last, "stages only grow")
            last = stage
        }
    }
}

/// All frames at once are the same as each by itself.
func fuzzAnimation(_ bytes: [UInt8]) {
    let file = ImageFormat(sniffing: bytes.prefix(32).map { $0 }) == .png ? withChecksums(bytes) : bytes
    guard let all = decoded(file, Transform(alpha: .straight, frames: .all)) else { return }
    let count = all.pixels.count / all.geometry.bytes
    for index in [0, count / 2, count - 1] {
        guard let one = decoded(file, Transform(alpha: .straight, frames: .one(index))) else {
            return expect(false, "each of all frames can be decoded")
        }
        let place = index * one.pixels.count
        expect(all.pixels[place..<place + one.pixels.count].elementsEqual(one.pixels), "a frame is one of all")
    }
    expect(decoded(file, Transform(frames: .one(count))) == nil, "there are no more frames than all")
}

private func withChecksums(_ bytes: [UInt8]) -> [UInt8] {
    var file = bytes
    var position = 8
    while position + 12 <= file.count {
        let length = file[position..<position + 4].reduce(0) { $0 << 8 | Int($1) }
        let end = position + 8 + length
        guard end + 4 <= file.count else { break }
        let sum = CRC32.of(file[position + 4..<end])
        for index in 0..<4 { file[end + index] = UInt8(truncatingIfNeeded: sum >> (24 - 8 * UInt32(index))) }
        position = end + 4
    }
    return file
}

/// A whole file through its codec, in several sizes and forms. What can be decoded comes out alike in both orders of
/// bytes, and again when it is encoded without loss and decoded.
func fuzzImage(_ bytes: [UInt8], _ format: ImageFormat) {
    guard ImageFormat(sniffing: bytes.prefix(16).map { $0 }) == format else { return }
    let transforms = [
        Transform(alpha: .straight), Transform(pixelFormat: .bgra8, alpha: .straight), Transform(width: 7),
        Transform(width: 40, height: 9, fit: .cover), Transform(byteLimit: 256),
    ]
    let results = transforms.map { decoded(bytes, $0) }
    guard let (geometry, pixels, _) = results[0] else {
        expect(results[1] == nil, "the order of bytes does not decide whether a picture can be decoded")
        return
    }
    guard let other = results[1] else { return expect(false, "the other order of bytes can be decoded as well") }
    let isSame = zip(pixels, other.pixels).enumerated().allSatisfy { index, pair in
        index % 4 % 2 == 1 ? pair.0 == pair.1 : pair.0 == other.pixels[index ^ 2]
    }
    expect(isSame, "the order of bytes is all that is different")
    guard let file = try? WritableBuffer(name: "fuzz").descriptor, let raster = try? PixelMemory(count: pixels.count)
    else { return }
    unsafe raster.bytes.copyBytes(from: pixels)
    let encoder = ImageEncoder(Encoding(.png), of: geometry, .rgba8, .straight)
    guard (try? encoder.encode(raster, to: file)) != nil else { return expect(false, "pixels are encoded") }
    let again = decoded(contents(of: file), transforms[0])
    expect(again?.pixels == pixels, "encoded pixels are decoded to the same")
}

/// The result of decoding; nil when it fails with a code, as it may.
private func decoded(
    _ bytes: [UInt8], _ transform: Transform, isPart: Bool = false
) -> (geometry: PixelGeometry, pixels: [UInt8], stage: Int?)? {
    // Small, so that a run is short.
    let job = DecodeJob(
        id: 0, transform: transform, maxPixels: 1 << 16, maxSourcePixels: 1 << 18, maxWorkingBytes: 32 << 20)
    do {
        let image = try EncodedImage(try ImageSource(copying: bytes, isPart: isPart), for: job)
        let result = image.plan.result
        expect(result.pixels <= job.maxPixels, "a result has its bounds")
        expect(image.plan.workingBytes <= job.maxWorkingBytes, "working memory has its bounds")
        let frames = transform.frames.count(of: image.plan.header.frameCount)
        expect(result.pixels * frames <= job.maxPixels, "all frames have their bounds")
        let size = image.plan.outputBytes(transform, nil)
        let output = try WritableBuffer(name: "fuzz", size: size).descriptor
        _ = try image.decode(into: output)
        return (result, contents(of: output), image.plan.stage)
    } catch let error as WireError {
        let codes: [ErrorCode] = [
            .truncated, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage, .outOfMemory,
            .badRequest,
        ]
        expect(codes.contains(error.code), "a picture fails with a code of its own: \(error)")
        return nil
    } catch {
        fatalError("\(error)")
    }
}

private func contents(of file: FileDescriptor) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: (try? file.size()) ?? 0)
    _ = unsafe bytes.withUnsafeMutableBytes { unsafe try? file.read(into: $0, at: 0) }
    return bytes
}

/// The checksum of PNG's chunks.
private enum CRC32 {
    private static let table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { crc, _ in crc & 1 == 1 ? crc >> 1 ^ 0xEDB8_8320 : crc >> 1 }
    }

    static func of(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        ~bytes.reduce(UInt32.max) { table[Int(UInt8(truncatingIfNeeded: $0) ^ $1)] ^ $0 >> 8 }
    }
}
