import Foundation
import IPCProtocol

/// One run: all processes request all images from one broker.
struct RunResult {
    /// For each image and size the results of all processes.
    let images: [[ImageSize: [ImageResult]]]
    /// The number of requests to the origin for each image.
    let originRequests: [Int]
    let processes: Int
    /// The broker's figures afterwards.
    let stats: StatsReport
    /// The number of entries on disk at the start.
    let entriesBefore: Int
    let milliseconds: Int

    /// The distinct memory that processes received for the image with this index, or for all, in these sizes: each is
    /// the result of one decode, or of one copy from disk.
    func buffers(_ sizes: [ImageSize], of image: Int? = nil) -> Set<String> {
        let results = (image.map { [images[$0]] } ?? images).flatMap { image in sizes.flatMap { image[$0]! } }
        return Set(results.filter { $0.failure == nil }.map(\.memory))
    }

    /// The number of processes that share the same buffer, in the size of an image where it is lowest.
    func sharers(_ image: Int) -> Int {
        ImageSize.allCases.compactMap { size in
            let successes = images[image][size]!.filter { $0.failure == nil }
            return Dictionary(grouping: successes, by: \.memory).values.map(\.count).max()
        }.min() ?? 0
    }

    var requests: Int { images.count * ImageSize.allCases.count * processes }
    var downloads: Int { originRequests.reduce(0, +) }
    /// The bytes of all results, each counted once.
    var bytes: Int {
        images.flatMap(\.values).reduce(0) { $0 + ($1.first { $0.failure == nil }?.bytes ?? 0) }
    }
}

/// The whole result: the runs before and after the broker's restart.
struct Outcome {
    let names: [String]
    let first: RunResult
    let second: RunResult

    /// The error code of an image, for one size or for any.
    func failure(_ image: Int, _ size: ImageSize? = nil) -> String? {
        (size.map { [$0] } ?? ImageSize.allCases).lazy.flatMap { first.images[image][$0]! }.compactMap(\.failure).first
    }

    /// A successful result for an image.
    func example(_ image: Int) -> ImageResult? {
        first.images[image].values.joined().first { $0.failure == nil }
    }

    /// The number of scaled results that had been decoded too fast to be kept on disk as pixels.
    private var notKept: Int {
        let originals = names.indices.count { failure($0) == nil }
        let results = first.buffers([.small, .medium]).count
        return results - min(max(0, second.entriesBefore - originals), results)
    }
    /// The number of images that the second run decoded in full size, from originals on disk.
    private var decodedAgain: Int { second.buffers([.full]).count }
    /// The number of scaled results that the second run decoded.
    private var scaledAgain: Int { max(0, second.stats[.decodes] - decodedAgain) }

    /// The deviations from the expected result.
    var deviations: [String] {
        names.enumerated().flatMap { index, name in
            var deviations: [String] = []
            let before = first.originRequests[index]
            if before > 1 { deviations.append("\(name) was transferred \(before) times") }
            // A file that could not be decoded is not cached, because it may have been replaced.
            if second.originRequests[index] > 0, failure(index) == nil {
                deviations.append("\(name) was requested from the origin again after the restart")
            }
            for size in ImageSize.allCases {
                let results = first.images[index][size]! + second.images[index][size]!
                if Set(results.map { "\($0.failure ?? "") \($0.width) \($0.height) \($0.checksum)" }).count > 1 {
                    deviations.append("\(name), \(size.rawValue): processes got different answers")
                }
            }
            return deviations
        }
    }

    /// The first run in one sentence.
    var firstSummary: String {
        let failures = names.indices.compactMap { failure($0) }
        let codes = Set(failures).sorted().joined(separator: ", ")
        return "\(count(names.count, "image")) × \(count(ImageSize.allCases.count, "size")) × "
            + "\(count(first.processes, "process", "processes")) = \(count(first.requests, "request")): "
            + "\(count(first.downloads, "download")), \(count(first.buffers(ImageSize.allCases).count, "decode")), "
            + "\(Self.megabytes(first.bytes)) of pixels held once instead of \(first.processes) times "
            + "(\(Self.megabytes(first.bytes * first.processes)))"
            + (failures.isEmpty ? "." : "; \(failures.count) failed (\(codes)).")
    }

    /// The second run in one sentence.
    var secondSummary: String {
        let imageDownloads = names.indices.reduce(0) { $0 + (failure($1) == nil ? second.originRequests[$1] : 0) }
        let asPixels = max(0, second.buffers([.small, .medium]).count - scaledAgain)
        return "After a restart, \(count(second.requests, "request")) from disk: "
            + "\(count(imageDownloads, "origin request")), \(count(asPixels, "scaled result")) read as pixels, "
            + "\(count(decodedAgain, "full-size image")) decoded again from cached originals"
            + (second.downloads > imageDownloads ? "; files that failed were requested again" : "")
            + (notKept > 0 ? ", \(count(scaledAgain, "scaled result")) decoded because too cheap to keep" : "")
            + "; \(count(max(0, scaledAgain - notKept), "decode")) of kept rasters."
    }

    private func count(_ number: Int, _ noun: String, _ plural: String? = nil) -> String {
        "\(number) " + (number == 1 ? noun : plural ?? noun + "s")
    }

    static func megabytes(_ bytes: Int) -> String { String(format: "%.1f MB", Double(bytes) / 1e6) }
}
