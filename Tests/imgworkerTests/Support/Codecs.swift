import IPCProtocol
import LinuxSystem
import SharedCache
import TestSupport
import WorkerProtocol

@testable import imgworker

/// Decodes `file` as the worker does for a client: as shown, in straight RGBA unless said otherwise.
func decode(
    _ file: [UInt8], _ format: PixelFormat = .rgba8, _ alpha: AlphaMode = .straight, maxPixels: Int = 50_000_000
) throws -> TestPicture {
    let job = DecodeJob(id: 1, transform: Transform(pixelFormat: format, alpha: alpha), maxPixels: maxPixels)
    return try decode(file, for: job)
}

/// Decodes `file` as the worker does for `job`.
func decode(_ file: [UInt8], for job: DecodeJob) throws -> TestPicture {
    let image = try EncodedImage(try ImageSource(copying: file), for: job)
    let geometry = image.plan.result
    let output = try WritableBuffer(name: "test", size: geometry.bytes).descriptor
    _ = try image.decode(into: output)
    return TestPicture(width: geometry.width, height: geometry.height, bytes: try contents(of: output))
}

/// The code with which decoding `file` fails; nil when it does not.
func failure(_ file: [UInt8], maxPixels: Int = 50_000_000) -> ErrorCode? {
    do {
        _ = try decode(file, maxPixels: maxPixels)
        return nil
    } catch let error as WireError {
        return error.code
    } catch {
        return .internal
    }
}

/// What a file holds.
func contents(of file: FileDescriptor) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: try file.size())
    let count = unsafe try bytes.withUnsafeMutableBytes { unsafe try file.read(into: $0, at: 0) }
    return Array(bytes.prefix(count))
}

/// A memfd of `bytes`.
func memoryFile(_ bytes: [UInt8]) throws -> FileDescriptor {
    let file = try WritableBuffer(name: "test").descriptor
    unsafe try bytes.withUnsafeBytes { unsafe try file.write($0, at: 0) }
    return file
}

extension TestPicture {
    /// The largest difference in the middle of squares with `side` pixels a side, where lossy formats keep a colour;
    /// at their edges colour bleeds.
    func difference(from other: TestPicture, inSquaresOf side: Int) -> Int {
        guard (width, height) == (other.width, other.height) else { return 255 }
        var largest = 0
        for y in stride(from: side / 2, to: height, by: side) {
            for x in stride(from: side / 2, to: width, by: side) {
                for channel in 0..<4 {
                    largest = max(largest, abs(Int(self[x, y][channel]) - Int(other[x, y][channel])))
                }
            }
        }
        return largest
    }

    /// The picture's encoding job.
    func job(
        _ format: Encoding.Format, _ pixelFormat: PixelFormat = .rgba8, _ alpha: AlphaMode = .straight,
        quality: Int = 95
    ) -> EncodeJob {
        EncodeJob(
            id: 1, format: format, geometry: PixelGeometry(width: width, height: height)!, pixelFormat: pixelFormat,
            alpha: alpha, quality: quality)
    }

    /// The picture as a file of `format`; WebP without loss.
    func encoded(_ format: Encoding.Format, lossless: Bool = true, quality: Int = 95) throws -> [UInt8] {
        let output = try WritableBuffer(name: "test").descriptor
        let encoder = ImageEncoder(job(format, quality: quality), lossless: lossless)
        _ = try encoder.encode(.file(try memoryFile(bytes)), to: output)
        return try contents(of: output)
    }

    /// The picture's bytes, whatever they mean, as a JPEG of `kind`.
    func jpeg(_ kind: JPEGWriter.Kind, quality: Int = 95) -> [UInt8] {
        let writer = JPEGWriter(job(.jpeg, quality: quality), kind: kind)!
        var rows = bytes
        _ = unsafe rows.withUnsafeMutableBytes { unsafe writer.encode($0, count: height) }
        _ = writer.finish()
        return unsafe Array(writer.takeOutput())
    }
}
