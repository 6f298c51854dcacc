import DiskFiles
import JSONCoding

@testable import imgcache

/// The trailer and the footer of a file.
struct FormatTests {
    @Test func footer() throws {
        let trailer = Array("{}".utf8)
        let footer = try #require(DiskFileFooter(of: trailer))
        let bytes = footer.encoded
        #expect(bytes.count == DiskFileFooter.length)
        #expect(DiskFileFooter(decoding: bytes, fileSize: 82) == footer)
        #expect(footer.describes(trailer))
        #expect(!footer.describes("[]".utf8))
        // The file is too short for the trailer.
        #expect(DiskFileFooter(decoding: bytes, fileSize: 81) == nil)
        #expect(DiskFileFooter(decoding: bytes.dropLast(), fileSize: 1000) == nil)
        var old = bytes
        old[71] = 1
        #expect(DiskFileFooter(decoding: old, fileSize: 82) == nil)
        #expect(DiskFileFooter.isOfAnotherVersion(old))
        #expect(!DiskFileFooter.isOfAnotherVersion(bytes))
        old[79] = 0
        #expect(!DiskFileFooter.isOfAnotherVersion(old))
        let long = [UInt8](repeating: 32, count: DiskFileFooter.maximumTrailerLength + 1)
        #expect(DiskFileFooter(of: long) == nil)
        #expect(DiskFileFooter(of: Array(long.dropLast())) != nil)
    }

    @Test func trailers() throws {
        let original = TestOriginal(1, owner: 1000)
        let raster = original.raster().record
        let digest = original.record.digest
        for content in [EntryTrailer.Content.original(original.record), .raster(raster, digest: digest)] {
            let trailer = EntryTrailer(content, created: 1_700_000_000_000)
            let encoded = trailer.encoded
            #expect(EntryTrailer(decoding: encoded[...]) == trailer)
            for length in 0..<encoded.count { #expect(EntryTrailer(decoding: encoded[..<length]) == nil) }
        }
        #expect(EntryTrailer(decoding: Array(#"{"created":1}"#.utf8)[...]) == nil)
        let text = String(decoding: EntryTrailer(.original(original.record), created: 1).encoded, as: UTF8.self)
        let withoutResponse = text.replacing("\"response\"", with: "\"other\"")
        #expect(text != withoutResponse && EntryTrailer(decoding: Array(withoutResponse.utf8)[...]) == nil)
    }

    @Test(arguments: ["", "a", "..", "../x", "a/b", "a.b", "é1", "a b", "a\0b"])
    func invalidFileNames(_ word: String) {
        #expect(EntryName.original(key: word) == nil)
    }

    @Test func names() throws {
        let digest = TestOriginal(1).record.digest
        let name = EntryName.raster(original: digest, form: "full")
        #expect(name == EntryName.raster(original: digest, form: "full"))
        #expect(name != EntryName.raster(original: digest, form: "full2"))
        let directory = CacheDirectory(path: "/c")
        #expect(directory.file(try #require(EntryName.original(key: "abCD12"))) == "/c/originals/ab/abCD12")
    }
}
