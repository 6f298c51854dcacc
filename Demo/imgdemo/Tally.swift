import IPCProtocol

/// The whole result: the same wishes, before and after the broker's restart.
struct Tally {
    let names: [String]
    let first: RunTally
    let second: RunTally

    private static let scaled: [PictureSize] = [.small, .medium]

    /// Why a picture did not come in some size.
    func failure(_ picture: Int) -> String? {
        PictureSize.allCases.lazy.compactMap { first.wishes[picture][$0]?.failure }.first
    }

    /// A result that came, to speak for the picture.
    func example(_ picture: Int) -> ClientResult? {
        PictureSize.allCases.reversed().lazy.compactMap { first.wishes[picture][$0]?.picture }.first
    }

    // MARK: After the restart

    /// Scaled results that were on disk as pixels when the broker began again.
    var kept: Int {
        let originals = first.requestsToOrigin.count { $0 > 0 }
        return min(max(0, second.entriesBefore - originals), first.buffers(Self.scaled).count)
    }
    /// Scaled results that were made too fast to be worth keeping.
    var notKept: Int { first.buffers(Self.scaled).count - kept }
    /// Full-size pictures that the second run decoded, from originals on disk.
    var decodedAgain: Int { second.buffers([.full]).count }
    /// Scaled results that the second run decoded.
    var scaledAgain: Int { max(0, second.stats[.decodes] - decodedAgain) }
    /// Of them, those that were on disk as pixels.
    var keptDecodedAgain: Int { max(0, scaledAgain - notKept) }

    /// What is not as it should be.
    var complaints: [String] {
        var complaints: [String] = []
        for (index, name) in names.enumerated() {
            let (before, after) = (first.requestsToOrigin[index], second.requestsToOrigin[index])
            if before > 1 { complaints.append("\(name) was transferred \(before) times") }
            // What is no picture is not kept: it may have been mended.
            if after > 0, failure(index) == nil {
                complaints.append("\(name) was asked for at the origin again after the restart")
            }
            for size in PictureSize.allCases {
                let (early, late) = (first.wishes[index][size]!, second.wishes[index][size]!)
                if early.answers.union(late.answers).count > 1 {
                    complaints.append("\(name), \(size.name): not everybody got the same")
                }
                if early.results.count != first.processes || late.results.count != second.processes {
                    complaints.append("\(name), \(size.name): answers are missing")
                }
            }
        }
        return complaints
    }

    // MARK: In words

    /// The first run in one sentence.
    var firstSummary: String {
        let (pictures, processes) = (names.count, first.processes)
        var text =
            "\(count(pictures, "image")) × \(count(PictureSize.allCases.count, "size")) × "
            + "\(count(processes, "process", "processes")) = \(count(first.requests, "request")): "
            + "\(count(first.downloads, "download")), \(count(first.buffers(PictureSize.allCases).count, "decoding")), "
            + "\(Self.megabytes(first.bytes)) of pixels held once instead of \(processes) times "
            + "(\(Self.megabytes(first.bytes * processes)))"
        let failures = names.indices.compactMap(failure)
        if !failures.isEmpty {
            let imageErrors: Set<ErrorCode> = [
                .decodeFailed, .truncated, .unsupportedFormat, .tooManyPixels, .emptyImage, .decoderCrashed,
            ]
            let areImages = failures.allSatisfy { ErrorCode(rawValue: $0).map(imageErrors.contains) == true }
            text += "; \(failures.count) could not be " + (areImages ? "decoded" : "loaded")
        }
        return text + "."
    }

    /// The second run in one sentence.
    var secondSummary: String {
        let pictureDownloads = names.indices.reduce(0) {
            $0 + (failure($1) == nil ? second.requestsToOrigin[$1] : 0)
        }
        let asPixels = max(0, second.buffers(Self.scaled).count - scaledAgain)
        var text =
            "After a restart, \(count(second.requests, "request")) from disk: "
            + "\(count(pictureDownloads, "origin request")), \(count(asPixels, "scaled result")) read as pixels, "
            + "\(count(decodedAgain, "full-size picture")) decoded again from kept originals"
        if second.downloads > pictureDownloads {
            text += "; what is no picture was asked for again"
        }
        if notKept > 0 { text += ", \(count(scaledAgain, "scaled result")) decoded because too cheap to keep" }
        return text + "; \(count(keptDecodedAgain, "decoding")) of kept rasters."
    }

    private func count(_ number: Int, _ noun: String, _ plural: String? = nil) -> String {
        "\(number) " + (number == 1 ? noun : plural ?? noun + "s")
    }

    static func megabytes(_ bytes: Int) -> String {
        let tenths = (bytes + 50_000) / 100_000
        return "\(tenths / 10).\(tenths % 10) MB"
    }
}
