import IPCProtocol
import LinuxSystem
import SharedCache
import TestSupport
import Testing

@testable import ImageDecoding

struct ImageSourceTests {
    private let bytes = TestPicture.gradient(width: 5, height: 5).png

    private func read(_ source: ImageSource) -> [UInt8] {
        source.withSpan { span in (0..<span.count).map { span[$0] } }
    }

    @Test func sealedAndUnsealedMemory() throws {
        let buffer = try WritableBuffer(name: "test")
        unsafe try bytes.withUnsafeBytes { unsafe try buffer.descriptor.write($0, at: 0) }
        let unsealed = try ImageSource(reading: buffer.descriptor)
        #expect(read(unsealed) == bytes)
        let descriptor = buffer.descriptor
        _ = try buffer.seal()
        #expect(read(try ImageSource(reading: descriptor)) == bytes)
    }

    /// Unsealed files are copied, so truncating them later has no effect.
    @Test func filesThatShrink() throws {
        let file = try memoryFile(bytes)
        let source = try ImageSource(reading: file)
        try file.truncate(to: 0)
        #expect(read(source) == bytes)
    }

    @Test func emptyFiles() throws {
        let file = try memoryFile([])
        #expect(throws: WireError(.emptyImage, "There are no bytes.")) { try ImageSource(reading: file) }
    }
}
