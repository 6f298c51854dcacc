import BrokerHarness
import CReference
import Dispatch
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LocalOrigin
import Synchronization

/// A format with its name in rows.
struct SampleFormat {
    let id: String
    let name: String
    let format: cref_format

    static let jpeg = SampleFormat(id: "jpeg", name: "JPEG", format: CREF_JPEG)
    static let progressive = SampleFormat(id: "progressive", name: "progressive JPEG", format: CREF_PROGRESSIVE_JPEG)
    static let png = SampleFormat(id: "png", name: "PNG", format: CREF_PNG)
    static let webp = SampleFormat(id: "webp", name: "lossy WebP", format: CREF_WEBP)
    static let gif = SampleFormat(id: "gif", name: "GIF", format: CREF_GIF)
    static let avif = SampleFormat(id: "avif", name: "AVIF, 8 bits, 4:2:0", format: CREF_AVIF)
    static let deepAVIF = SampleFormat(id: "deep-avif", name: "AVIF, 10 bits, 4:4:4", format: CREF_DEEP_AVIF)

    /// The name of the library that decodes it for comparison.
    var library: String {
        #if arch(x86_64)
            // Its assembly for the filters of rows is left out, see docs/decisions/0018-png-rows.md.
            if format == CREF_PNG { return "Debian's libpng, built without vector code," }
        #endif
        return "the library"
    }
}

/// Returns the bytes of a file that `write` writes to a path; it returns 0 for success.
func bytesOfFile(_ write: (String) -> Int32) throws -> [UInt8] {
    let path = temporaryPath("sample")
    defer { try? FileManager.default.removeItem(atPath: path) }
    guard write(path) == 0, let data = FileManager.default.contents(atPath: path) else {
        throw Failure("\(path) cannot be written")
    }
    return [UInt8](data)
}

/// Creates a folder and calls `write` for each number below `count`, on all processors; it returns whether it has
/// succeeded.
func writeFiles(
    _ count: Int, in folder: String, permissions: Int = 0o755, _ write: @Sendable (Int) -> Bool
) throws {
    try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: permissions])
    let failures = Atomic(0)
    DispatchQueue.concurrentPerform(iterations: count) { number in
        if !write(number) { failures.add(1, ordering: .relaxed) }
    }
    guard failures.load(ordering: .relaxed) == 0 else { throw Failure("\(folder) cannot be written") }
}

/// A generated image, and an origin that serves it under any number of URLs, each with other bytes: results are found
/// by the digest of the bytes, and every decode must be a cold one.
final class SamplePicture {
    let bytes: [UInt8]
    private let origin: LocalOrigin
    private var served = 0

    /// Creates an image of that size, at an origin that may require a connection for each request.
    init(_ format: cref_format, width: Int, height: Int, keepsConnections: Bool = true) throws {
        let bytes = try bytesOfFile { cref_write_picture($0, format, UInt32(width), UInt32(height)) }
        self.bytes = bytes
        // Decoders ignore the bytes after the end of the image.
        origin = try LocalOrigin {
            var response = LocalOrigin.Response.ok(bytes + Array($0.path.utf8))
            response.keepsAlive = keepsConnections
            return response
        }
    }

    /// A URL that has not been used, with other bytes than each before; so have the URLs below it.
    func newURL() -> String {
        served += 1
        return origin.url("/\(served)")
    }

    func stop() { origin.stop() }
}

/// A generated image at an origin, and a broker with a client that loads it.
final class SampleLoads {
    let picture: SamplePicture
    let broker: BrokerProcess
    let client: ImageBroker

    init(
        _ run: BenchmarkRun, _ format: cref_format, width: Int, height: Int, memory: String = "1G",
        keepsConnections: Bool = true, _ options: [String] = []
    ) throws {
        picture = try SamplePicture(format, width: width, height: height, keepsConnections: keepsConnections)
        broker = try BrokerProcess(run.broker, ["--memory-limit", memory, "--max-download", "1G"] + options)
        client = try broker.client()
    }

    func stop() {
        broker.stop()
        picture.stop()
    }
}

extension ImageBroker {
    /// Loads the images of URLs with at most `inFlight` requests at once. Calls `each` with the place of each URL and
    /// its image.
    func load(
        _ urls: [String], _ options: GetOptions = GetOptions(), inFlight: Int = 64,
        each: (Int, BrokerImage) -> Void = { _, _ in }
    ) throws {
        var (places, sent, received) = ([Int: Int](), 0, 0)
        while received < urls.count {
            while sent < urls.count, places.count < inFlight {
                places[try send(get: try SourceURL(urls[sent]), options)] = sent
                sent += 1
            }
            switch try receive() {
            case .image(let id, let image):
                guard let place = places.removeValue(forKey: id) else { continue }
                each(place, image)
                received += 1
            case .reply(.error(_, let error)): throw Failure(error.message)
            case .reply, .progress, .event: break
            }
        }
    }

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
