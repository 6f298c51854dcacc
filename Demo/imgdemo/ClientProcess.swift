import BrokerHarness
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LinuxSystem
import SharedCache

/// One of the processes that all request the same images.
enum ClientProcess {
    /// The maximum number of requests in flight.
    private static let window = 64
    /// Images are kept until the end up to this number of bytes; the rest are released at once.
    private static let keptBytes = 256 << 20

    /// Connects to the broker at `socket` and prints a line; reads the requests as one line of JSON, sends them and
    /// prints the results as one line of JSON; then keeps the images until its input ends, so that the broker's figures
    /// and the kernel's show them.
    static func run(socket: String) throws {
        let broker = try ImageBroker(path: socket)
        _ = try broker.hello(client: "imgdemo")
        print("ready")
        fflush(nil)
        guard let line = readLine() else { return }
        let requests = try JSONDecoder().decode([ImageRequest].self, from: Data(line.utf8))
        var results = [ImageResult](repeating: ImageResult(), count: requests.count)
        var inFlight: [Int: Int] = [:]
        var next = 0
        var (kept, total): ([BrokerImage], Int) = ([], 0)
        while next < requests.count || !inFlight.isEmpty {
            while next < requests.count, inFlight.count < window {
                let id = try broker.send(get: try SourceURL(requests[next].url), requests[next].size.options)
                inFlight[id] = next
                next += 1
            }
            switch try broker.receive() {
            case .progress, .event: continue
            case .image(let id, let image):
                guard let index = inFlight.removeValue(forKey: id) else { continue }
                results[index] = try inspect(image)
                if total + image.reply.bytes <= keptBytes {
                    kept.append(image)
                    total += image.reply.bytes
                }
            case .reply(.error(let id?, let error)):
                guard let index = inFlight.removeValue(forKey: id) else { continue }
                // A late request is refused because of the first failure, which is the cause.
                results[index].failure = (error.cause ?? error.code).rawValue
            case .reply(let reply): throw HarnessFailure("an unexpected reply: \(reply)")
            }
        }
        print(String(decoding: try JSONEncoder().encode(results), as: UTF8.self))
        fflush(nil)
        _ = readLine()
        withExtendedLifetime(kept) {}
    }

    /// Reads every pixel, and finds the memory that holds them.
    private static func inspect(_ image: BrokerImage) throws -> ImageResult {
        let info = image.reply
        var memory = info.segment.map { "segment \($0) at \(info.offset)" }
        if let buffer = image.buffer {
            var status = stat()
            guard unsafe fstat(buffer.descriptor.raw, &status) == 0 else {
                throw HarnessFailure("fstat: error \(errno)")
            }
            memory = "memfd \(status.st_ino)"
        }
        guard let memory else { throw HarnessFailure("an image came without its bytes") }
        return ImageResult(
            width: info.width, height: info.height, originalWidth: info.originalWidth,
            originalHeight: info.originalHeight, contentType: info.contentType, bytes: info.bytes,
            checksum: image.withBytes(checksum), memory: memory)
    }

    /// The 64-bit FNV-1a checksum of the bytes, taken four at a time; all pixels have four bytes.
    private static func checksum(of bytes: RawSpan) -> UInt64 {
        stride(from: 0, to: bytes.byteCount - 3, by: 4).reduce(0xCBF2_9CE4_8422_2325) { sum, offset in
            let pixel = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self)
            return (sum ^ UInt64(pixel)) &* 0x100_0000_01B3
        }
    }
}
