import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient
import LinuxSystem
import SharedCache

/// What a decode worker needs at most to make a picture of 100 megapixels into one of 1024 pixels: the growth of its
/// resident memory (VmHWM) over the idle worker's, and the blocks of the result, which it never maps.
enum MemoryBenchmark {
    static func run(broker path: String) throws {
        for (name, format) in [("JPEG", CREF_JPEG), ("PNG", CREF_PNG)] {
            let picture = try SamplePicture(format, width: 10_000, height: 10_000)
            let broker = try BrokerProcess(path, ["--workers", "1", "--memory-limit", "2G", "--max-download", "1G"])
            defer {
                broker.stop()
                picture.stop()
            }
            let client = try broker.client()
            // The spare worker starts, too.
            usleep(500_000)
            let idle = broker.workersPeaks()
            var options = GetOptions()
            options.variant.width = 1024
            let (time, image) = try timed { try client.get(picture.newURL(), options) }
            let busy = broker.workersPeaks()
            guard let result = image.buffer,
                let (worker, peak) = busy.max(by: {
                    $0.value - idle[$0.key, default: 0] < $1.value - idle[$1.key, default: 0]
                }),
                let before = idle[worker]
            else { throw Failure("the worker has gone") }
            var status = stat()
            fstat(result.descriptor.raw, &status)
            let blocks = Int(status.st_blocks) * 512
            let allowed = image.description.bytes + 32 << 20
            Figure(
                name: "memory, 100 MP \(name)", measured: mebibytes(peak - before + blocks),
                reference: "result + 32 MiB = \(mebibytes(allowed))",
                ratio: Double(peak - before + blocks) / Double(allowed), wanted: 1
            ).show()
            printLine(
                "  idle \(mebibytes(before)), at most \(mebibytes(peak)), result \(mebibytes(blocks)); "
                    + "file \(mebibytes(picture.bytes.count)), download and decode \(milliseconds(time))")
        }
    }
}
