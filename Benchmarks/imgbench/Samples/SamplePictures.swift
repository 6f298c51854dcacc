import CReference
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// The name of the library that decodes `format` for comparison.
func libraryName(_ format: cref_format) -> String {
    #if arch(x86_64)
        // Its assembly for the filters of rows is left out, see docs/decisions/0018-png-rows.md.
        if format == CREF_PNG { return "Debian's libpng, built without vector code," }
    #endif
    return "the library"
}

/// A generated image, and an origin that serves it under any number of URLs, each with other bytes: results are found by
/// the digest of the bytes, and every decode must be a cold one.
final class SamplePicture {
    let bytes: [UInt8]
    private let origin: LocalOrigin
    private var served = 0

    /// Creates an image of that size, at an origin that may require a connection for each request.
    init(_ format: cref_format, width: Int, height: Int, keepsConnections: Bool = true) throws {
        let path = temporaryPath("sample")
        defer { try? FileManager.default.removeItem(atPath: path) }
        guard cref_write_picture(path, format, UInt32(width), UInt32(height)) == 0,
            let data = FileManager.default.contents(atPath: path)
        else { throw Failure("\(path) cannot be written") }
        let bytes = [UInt8](data)
        self.bytes = bytes
        // Decoders ignore the bytes after the end of the image.
        origin = try LocalOrigin {
            var response = LocalOrigin.Response.ok(bytes + Array($0.path.utf8))
            response.keepsAlive = keepsConnections
            return response
        }
    }

    func newURL() -> String {
        served += 1
        return origin.url("/\(served)")
    }

    /// A URL under which any number of them are, each with other bytes.
    func folder() -> String { newURL() }

    func stop() { origin.stop() }
}

extension ImageBroker {
    /// Loads the encoded bytes at `url`, so that the next request for its pixels is one decode.
    func loadOriginal(_ url: String) throws -> BrokerImage {
        var options = GetOptions()
        options.representation = .original
        return try get(url, options)
    }

    /// Removes `url` from the cache, and waits until the memory of its images is probably free.
    func forget(_ url: String) throws {
        _ = try remove(try SourceURL(url))
        usleep(50_000)
    }
}
