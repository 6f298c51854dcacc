import IPCProtocol

/// The results of loading several images.
struct LoadSummary {
    private var counts: [ImageReply.Source: Int] = [:]
    private var bytes = 0
    private(set) var done = 0
    var failed = 0

    mutating func add(_ image: ImageReply) {
        done += 1
        bytes += image.bytes
        counts[image.source, default: 0] += 1
    }

    /// One line, for loads that took `milliseconds`.
    func text(milliseconds: Int) -> String {
        let tenths = max(1, (milliseconds + 50) / 100)
        let images = done == 1 ? "image" : "images"
        var parts = ["\(done) \(images) in \(tenths / 10).\(tenths % 10) s, \(ByteCount(bytes))"]
        for source in ImageReply.Source.allCases {
            if let count = counts[source] { parts.append("\(count) from \(source.phrase)") }
        }
        if failed > 0 { parts.append("\(failed) failed") }
        return parts.joined(separator: ", ")
    }
}

extension ImageReply.Source {
    /// The words after "from".
    var phrase: String {
        switch self {
        case .network: "the network"
        case .file: "files"
        case .memory, .disk: rawValue
        case .shared: "the fleet"
        }
    }
}
