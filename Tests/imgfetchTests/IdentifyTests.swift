import Digests
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SharedCache
import Testing
import WorkerProtocol

@testable import imgfetch

@Suite(.timeLimit(.minutes(10))) struct IdentifyTests {
    @Test(arguments: [0, 1, 300_000, Identification.sliceBytes, Identification.sliceBytes * 2 + 5])
    func `uploaded bytes are hashed`(count: Int) throws {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 7) }
        let worker = try FetchWorker()
        let job = try worker.identify(FetchWorker.file(bytes + [7, 7, 7]), bytes: count)
        let result = FetchResult(bytes: count, digest: SHA256.hexadecimalDigest(of: bytes))
        #expect(try worker.wait(for: job).end == .finished(job: job, result))
    }

    @Test func `fewer bytes than announced are an error`() throws {
        let worker = try FetchWorker()
        #expect(try worker.wait(for: worker.identify(FetchWorker.file([1, 2]), bytes: 3)).error?.code == .internal)
        // No job is left in the queue.
        #expect(try worker.wait(for: worker.identify(FetchWorker.file([1, 2]), bytes: 2)).result?.bytes == 2)
    }

    @Test func `hashing much delays no transfer, and can be stopped`() throws {
        let origin = try LocalOrigin { _ in .ok([1]) }
        defer { origin.stop() }
        let worker = try FetchWorker()
        // A sparse file, so that it costs no memory.
        let file = try FetchWorker.file()
        try file.truncate(to: 16 << 30)
        let long = try worker.identify(file, bytes: 16 << 30)
        let short = try worker.identify(FetchWorker.file([1, 2]), bytes: 2)
        #expect(try worker.wait(for: short).result?.bytes == 2)
        #expect(try worker.run(origin.url("/a")).body == [1])
        try worker.stop(long)
        #expect(try worker.nextReport() == .stopped(job: long, received: 0))
    }
}
