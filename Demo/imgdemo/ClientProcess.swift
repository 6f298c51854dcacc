import Digests
import Foundation
import Glibc
import HTTPValues
import IPCProtocol
import IPCTransport
import ImageBrokerClient
import LinuxSystem
import SharedCache
import SystemValues
import WorkerProtocol

/// One of the processes that all want the same pictures.
enum ClientProcess {
    /// So many requests are under way at once.
    private static let window = 64
    /// Pictures of so many bytes are held until the end; of more, each is let go of once it was looked at.
    private static let heldBytes = 256 << 20

    /// Asks the broker at `socket` for what each line of the file `list` says, when told to on descriptor 3, and reports
    /// there.
    static func run(socket: String, list: String) throws {
        let control = FrameChannel(socket: FileDescriptor(owning: 3))
        try CurrentProcess.dieWithParent()
        let wishes = try String(contentsOfFile: list, encoding: .utf8).split(separator: "\n").compactMap {
            Wish(line: $0)
        }
        let broker = try ImageBroker(path: socket)
        _ = try broker.hello(client: "imgdemo")
        try control.sendMessage(ClientReport.ready)
        guard try control.receiveMessage(ClientOrder.self)?.0 == .start else { return }

        var started: [Int: (index: Int, at: Instant)] = [:]
        var next = 0
        var held: [BrokerImage] = []
        var heldNow = 0
        while next < wishes.count || !started.isEmpty {
            while next < wishes.count, started.count < window {
                let id = try broker.send(get: try SourceURL(wishes[next].url), wishes[next].size.options)
                started[id] = (next, .now)
                next += 1
            }
            var result: ClientResult
            switch try broker.receive() {
            case .progress, .event: continue
            case .image(let id, let image):
                guard let request = started.removeValue(forKey: id) else { continue }
                result = ClientResult(index: request.index)
                result.microseconds = Instant.now.microseconds(since: request.at)
                try look(at: image, &result)
                if heldNow + image.reply.bytes <= heldBytes {
                    held.append(image)
                    heldNow += image.reply.bytes
                }
            case .reply(.error(let id?, let error)):
                guard let request = started.removeValue(forKey: id) else { continue }
                result = ClientResult(index: request.index)
                // Whoever asks late hears of the first failure.
                result.failure = (error.cause ?? error.code).rawValue
            case .reply(let reply): throw DemoFailure("an unexpected answer: \(reply)")
            }
            try control.sendMessage(ClientReport.result(result))
        }
        try control.sendMessage(ClientReport.done)
        // The leases last as long as `held`, so that the broker's figures show them.
        _ = try control.receiveMessage(ClientOrder.self)
        withExtendedLifetime(held) {}
    }

    /// Reads every pixel, and finds out where they lie.
    private static func look(at image: BrokerImage, _ result: inout ClientResult) throws {
        result.width = image.reply.width
        result.height = image.reply.height
        result.originalWidth = image.reply.originalWidth
        result.originalHeight = image.reply.originalHeight
        result.contentType = image.reply.contentType
        result.bytes = image.reply.bytes
        image.withBytes { bytes in
            var hash = SHA256()
            unsafe bytes.withUnsafeBytes { unsafe hash.update($0) }
            result.digest = hash.hexadecimalDigest()
        }
        guard let buffer = image.buffer else { throw DemoFailure("a picture came without a buffer") }
        var status = stat()
        guard unsafe fstat(buffer.descriptor.raw, &status) == 0 else { throw SystemError("fstat") }
        result.inode = Int(status.st_ino)
    }
}
