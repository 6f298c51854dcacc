import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

struct FormatTableTests {
    /// A program decodes the formats of its family, in their order, and no others.
    @Test func programsHaveTheFormatsOfTheirFamily() {
        var families = Set<CodecFamily>()
        for codec in allCodecs { families.insert(CodecFamily(codec.format)) }
        #expect(allCodecs.map(\.format) == ImageFormat.files.filter { families.contains(CodecFamily($0)) })
        #expect(DecodeProgram.plain.codecs.map(\.format) == CodecFamily.plain.formats)
    }
}
