import BrokerHarness
import CReference
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// Descriptions by the header, of a local file and of a URL whose origin takes 20 ms to answer; and a thumbnail of a
/// large JPEG from the preview in its file, against one from the image itself.
enum HeaderBenchmark {
    private static let latencyMs = 20

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let loads = try SampleLoads(
            run, CREF_JPEG, width: run.scaled(4000, 800), height: run.scaled(3000, 600), ["--workers", "1"])
        defer { loads.stop() }
        let client = loads.client
        var options = GetOptions()
        options.delivery = .header
        let count = run.scaled(30, 3)

        var local = Sample()
        for number in 0..<count {
            // Another file each time, whose description is in no cache.
            let file = try TemporaryFile(loads.picture.bytes + [UInt8(number)])
            defer { file.remove() }
            local.add(try timed { try client.get(path: file.path, options) }.milliseconds)
        }
        let bytes = loads.picture.bytes
        let origin = try LocalOrigin {
            var response = LocalOrigin.Response.ok(bytes + Array($0.path.utf8))
            response.delayMs = latencyMs
            return response
        }
        defer { origin.stop() }
        var remote = Sample()
        for number in 0..<count {
            remote.add(try timed { try client.get(origin.url("/\(number)"), options) }.milliseconds)
        }
        return [
            Row("header.local", "header of a local JPEG of 12 MP", local, allowed: 10, unit: "ms"),
            Row(
                "header.url", "header of a JPEG of 12 MP from an origin with 20 ms latency", remote, allowed: 35,
                unit: "ms"),
        ] + (try previews(run, client))
    }

    private static func previews(_ run: BenchmarkRun, _ client: ImageBroker) throws -> [Row] {
        let (width, height) = run.scaled((8160, 6120), (800, 600))
        let image = try SamplePicture(CREF_JPEG, width: width, height: height)
        let preview = try SamplePicture(CREF_JPEG, width: 320, height: 240)
        defer {
            image.stop()
            preview.stop()
        }
        let file = EXIF.inserted(block(preview.bytes), intoJPEG: image.bytes)
        let origin = try LocalOrigin { .ok(file + Array($0.path.utf8)) }
        defer { origin.stop() }
        var options = GetOptions()
        (options.variant.width, options.variant.height) = (256, 256)
        var fast = options
        fast.embedded = .fast
        var (pairs, alone) = (Pairs(), Sample())
        for number in 0..<run.scaled(15, 3) {
            let url = origin.url("/\(number)")
            _ = try client.loadOriginal(url)
            let (ours, embedded) = try timed { try client.get(url, fast) }
            if !embedded.reply.embedded { throw Failure("the preview was not decoded") }
            pairs.add(ours, against: try timed { try client.get(url, options) }.milliseconds)
            alone.add(ours)
            try client.forget(url)
        }
        let what = "256 px of a JPEG of 50 MP with a preview of 320 px"
        return [
            Row("header.preview", what, alone, allowed: 5, unit: "ms"),
            Row("header.preview-scaled", what, against: "the image itself, scaled", pairs, unit: "ms", goal: nil),
        ]
    }

    /// An EXIF block with a thumbnail.
    private static func block(_ thumbnail: [UInt8]) -> [UInt8] {
        func number(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }
        func entry(_ tag: UInt8, _ value: Int) -> [UInt8] { [tag, 2, 4, 0, 1, 0, 0, 0] + number(value) }
        // The first directory is empty; the second one is the thumbnail's.
        let header = Array("II*\0".utf8) + number(8) + [0, 0] + number(14)
        return header + [2, 0] + entry(1, 44) + entry(2, thumbnail.count) + number(0) + thumbnail
    }
}
