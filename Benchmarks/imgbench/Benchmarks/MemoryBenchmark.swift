import BrokerHarness
import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient
import LinuxSystem
import SharedCache

/// The peak memory of a decode worker that scales an image of 100 megapixels down to a width of 1024: the growth of its
/// resident memory (VmHWM) over the idle worker's, and the blocks of the result, which it never maps.
enum MemoryBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        try [SampleFormat.jpeg, .png].map { try row(run, $0) }
    }

    private static func row(_ run: BenchmarkRun, _ format: SampleFormat) throws -> Row {
        let side = run.scaled(10_000, 2_000)
        let loads = try SampleLoads(
            run, format.format, width: side, height: side, memory: "2G", ["--workers", "1"])
        defer { loads.stop() }
        let (picture, broker, client) = (loads.picture, loads.broker, loads.client)
        // The spare worker included.
        _ = try broker.idleWorkers("imgworker", 2, client)
        let idle = broker.workersPeaks()
        var options = GetOptions()
        options.variant.width = 1024
        var sample = Sample()
        var allowed = 0.0
        for _ in 0..<run.scaled(2, 1) {
            let image = try client.get(picture.newURL(), options)
            let busy = broker.workersPeaks()
            guard let result = image.buffer,
                let growth = busy.compactMap({ worker, peak in idle[worker].map { peak - $0 } }).max()
            else { throw Failure("the worker has gone") }
            var status = stat()
            fstat(result.descriptor.raw, &status)
            sample.add(mebibytes(growth + Int(status.st_blocks) * 512))
            allowed = mebibytes(image.reply.bytes) + 32
        }
        return Row(
            "memory.\(format.id)", "memory for 1024 px of a 100 MP \(format.name)", sample, allowed: allowed,
            unit: "MiB",
            note: "the result + 32 MiB")
    }
}
