internal import CProbe
import Digests
internal import DiskRecords
internal import Glibc
internal import HTTPValues
internal import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
internal import Sandbox
internal import SharedCache
import WorkerProtocol

/// Acts as `imgcache` with an intruder in it. A broker finds it under the name imgcache in its own folder. The file
/// `attack` in that folder says how it answers a lookup.
struct CacheImpostor {
    private let channel: FrameChannel
    private let attack: String
    /// A socket that takes a minute to close.
    private let lingering: FileDescriptor?

    static func run(_ arguments: [String]) -> Never {
        let folder = arguments[0].lastIndex(of: "/").map { String(arguments[0][..<$0]) } ?? "."
        if arguments.contains("--parent") { try? CurrentProcess.dieWithParent() }
        let directory = arguments.firstIndex(of: "--directory").map { arguments[$0 + 1] } ?? folder
        let attack = (try? FileDescriptor.open(readingAt: folder + "/attack").readToEnd()) ?? ""
        cprobe_prepare()
        let lingering = attack == "lingering" ? FileDescriptor(owning: cprobe_lingering_socket(60)) : nil
        let report = SandboxPolicy.cache(directory: directory, extraDirectories: []).enter().report
        let impostor = CacheImpostor(
            channel: FrameChannel(socket: FileDescriptor(owning: 3)), attack: attack, lingering: lingering)
        do {
            try impostor.channel.sendMessage(StoreReport.ready(report))
            try impostor.channel.sendMessage(StoreReport.state(DiskReport(state: .on)))
            while let (order, _) = try impostor.channel.receiveMessage(StoreOrder.self) { try impostor.answer(order) }
            _exit(0)
        } catch {
            _exit(1)
        }
    }

    private func answer(_ order: StoreOrder) throws {
        switch order {
        case .find(let job, let keys, _, _): try find(job, keys[0])
        case .keepOriginal(let job, _), .keepRaster(let job, _): try send(.kept(jobs: [job]))
        case .query(let job, _): try send(.queried(job: job, nil))
        case .forget(let job, _, _), .discard(let job, _): try send(.forgotten(job: job, keys: []))
        case .clear(let job, _): try send(.cleared(job: job, removed: .max, bytes: .max))
        case .touch, .update, .quarantine, .limit: break
        }
    }

    /// An image whose bytes are 66.
    private static let image = Array("good 8 8 66".utf8)

    private func find(_ job: Int, _ key: String) throws {
        let digest = SHA256.hexadecimalDigest(of: Self.image)
        let now = time(nil) * 1000
        var record = OriginalRecord(
            key: key, url: "http://a.test/", owner: nil, digest: digest, bytes: Self.image.count,
            response: ResponseRecord(requestedAt: now, receivedAt: now, cacheControl: "max-age=100000000000"))
        switch attack {
        case "silent": return
        case "nonsense": return try channel.send(try Frame.ofType("nonsense"))
        case "no-frame": return try channel.send([255, 255, 255, 255])
        case "other-job": return try send(.foundOriginal(job: job + 1000, record), try sealed(Self.image))
        case "unsealed":
            let buffer = try WritableBuffer(name: "impostor", size: Self.image.count)
            return try send(.foundOriginal(job: job, record), buffer.descriptor)
        case "bytes-short": return try channel.send(StoreReport.foundOriginal(job: job, record).encoded(with: [1]))
        case "bytes-long":
            record.bytes = 100 << 10
            let bytes = [UInt8](repeating: 66, count: record.bytes)
            return try channel.send(StoreReport.foundOriginal(job: job, record).encoded(with: bytes))
        case "short": return try send(.foundOriginal(job: job, record), try sealed([1]))
        case "padded":
            let buffer = try WritableBuffer(name: "impostor", size: 1 << 40)
            try buffer.descriptor.write(Self.image.span, at: 0)
            return try send(.foundOriginal(job: job, record), try buffer.seal().descriptor)
        case "lingering":
            // The broker has the whole message only when it alone has the file: the last one to close a file is who
            // waits.
            let message = try StoreReport.foundOriginal(job: job, record).encoded()
            try channel.send(Array(message.prefix(8)), descriptors: lingering.map { [$0] } ?? [])
            if let lingering { close(lingering.raw) }
            return try channel.send(Array(message.dropFirst(8)))
        case "giant": record.bytes = 1 << 60
        case "other-key": record.key = String(repeating: "a", count: 64)
        case "raster", "bytes-raster":
            let size = PixelGeometry(width: 8, height: 8)!
            let raster = RasterRecord(
                original: digest, form: "any", header: ImageHeader(format: .png, geometry: size), geometry: size,
                bytes: 256)
            let pixels = [UInt8](repeating: 66, count: 256)
            if attack == "raster" { return try send(.foundRaster(job: job, record, raster), try sealed(pixels)) }
            return try channel.send(StoreReport.foundRaster(job: job, record, raster).encoded(with: pixels))
        case "input": return try send(.foundOriginal(job: job, record), FileDescriptor.open(readingAt: "/dev/null"))
        case "execve": _ = unsafe cprobe_attempt("execve")
        // The image is as good as any other; then the process is found out.
        case "poison":
            try send(.foundOriginal(job: job, record), try sealed(Self.image))
            while let (order, _) = try channel.receiveMessage(StoreOrder.self) {
                if case .query = order { _ = unsafe cprobe_attempt("execve") }
            }
            _exit(0)
        default: return try send(.missing(job: job))
        }
        try send(.foundOriginal(job: job, record), try sealed(Self.image))
    }

    private func sealed(_ bytes: [UInt8]) throws -> FileDescriptor {
        unsafe try bytes.withUnsafeBytes { unsafe try SealedBuffer(copying: $0, name: "impostor").descriptor }
    }

    private func send(_ report: StoreReport, _ descriptor: FileDescriptor? = nil) throws {
        try channel.sendMessage(report, descriptors: descriptor.map { [$0] } ?? [])
    }
}
