import IPCProtocol
import LinuxSystem
import SharedCache
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Scaling down an image that is decoded row by row takes little memory at any size.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ScalingMemoryTests {
    static let side = 10_000
    static let most = 32 << 10

    @Test func jpegOf100Megapixels() throws {
        let writer = try #require(JPEGWriter(Self.geometry, .rgba8, quality: Encoding.usualQuality))
        let file = try Self.encode(with: writer)
        try measure(file)
        // For a thumbnail, most memory is the window of the file, which is released behind the decoder, and rows.
        try measure(file, side: 256, most: 2048)
    }

    @Test func pngOf100Megapixels() throws {
        let writer = try #require(PNGWriter(Self.geometry, .rgba8))
        let file = try Self.encode(with: writer)
        // Exceeds the worker's limit, so it must release the bytes that it has read.
        #expect(try file.size() > Self.most << 10)
        try measure(file)
    }

    @Test func digestOfALargeFile() throws {
        let buffer = try WritableBuffer(name: "test")
        let part = [UInt8](repeating: 7, count: 1 << 20)
        for number in 0..<32 {
            unsafe try part.withUnsafeBytes { unsafe try buffer.descriptor.write($0, at: number << 20) }
        }
        let file = try buffer.seal().descriptor
        let worker = try TestWorker()
        let idle = try worker.kilobytes(of: "VmHWM")
        try worker.order(.identify(job: 1), [file])
        guard case .identified(1, _, _, _) = try worker.next() else { throw WireError(.internal, "no digest") }
        // The pages of the file are released behind the digest.
        #expect(try worker.kilobytes(of: "VmHWM") - idle <= 1024)
    }

    private static let geometry = PixelGeometry(width: side, height: side)!

    /// Returns a sealed file of the image: incompressible noise at the top, stripes below.
    private static func encode(with writer: some RowEncoder) throws -> FileDescriptor {
        let buffer = try WritableBuffer(name: "test")
        let file = buffer.descriptor
        let rows = 100
        let memory = try PixelMemory(count: rows * side * 4)
        let words = unsafe memory.bytes.bindMemory(to: UInt64.self)
        var (random, length) = (SplitMix(state: 5), 0)
        for index in words.indices { unsafe words[index] = random.next() }
        for band in 0..<side / rows {
            if band == 12 { unsafe words.update(repeating: 0xFF00_40F0_FF80_FF20) }
            _ = unsafe writer.encode(memory.bytes, count: rows)
            length += try Self.append(writer, to: file, at: length)
        }
        _ = writer.finish()
        _ = try Self.append(writer, to: file, at: length)
        return try buffer.seal().descriptor
    }

    private static func append(_ writer: some RowEncoder, to file: FileDescriptor, at offset: Int) throws -> Int {
        let bytes = unsafe writer.takeOutput()
        unsafe try file.write(bytes, at: offset)
        return bytes.count
    }

    /// `most`: the most kilobytes by which the worker may grow.
    private func measure(_ file: FileDescriptor, side: Int = 1024, most: Int = Self.most) throws {
        let worker = try TestWorker()
        let idle = try worker.kilobytes(of: "VmHWM")
        try worker.order(.decode(DecodeJob(id: 1, transform: Transform(width: side))), [file])
        guard case .header(1, let plan) = try worker.next() else { throw WireError(.internal, "no header") }
        #expect(plan.result == PixelGeometry(width: side, height: side))
        let output = try WritableBuffer(name: "test", size: plan.result.bytes)
        try worker.order(.output(job: 1), [output.descriptor])
        #expect(try worker.next() == .finished(job: 1, DecodeResult(bytes: plan.result.bytes)))
        // The result is written, not mapped, so it does not count as the worker's memory.
        let peak = try worker.kilobytes(of: "VmHWM") - idle
        #expect(peak <= most)
        #expect(plan.workingBytes <= Self.most << 10)
    }
}
