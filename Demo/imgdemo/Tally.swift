import Glibc
import IPCProtocol

/// What all processes together found out about one picture.
struct PictureTally {
    let name: String
    /// What each process reports.
    var results: [ClientResult] = []
    /// How often the origin was asked for it.
    var downloads = 0

    /// One that came, to speak for all.
    var picture: ClientResult? { results.first { $0.failure == nil } }
    /// Why it did not come, to some process at least.
    var failure: String? { results.lazy.compactMap(\.failure).first }
    /// How many different buffers there are: each is the work of one decoding.
    var decodes: Int { Set(results.filter { $0.failure == nil }.map(\.inode)).count }
    /// The most processes that map the same pages.
    var sharers: Int {
        Dictionary(grouping: results.filter { $0.failure == nil }, by: \.inode).values.map(\.count).max() ?? 0
    }
    /// Whether all processes got the same: the same pixels, or the same error.
    var agrees: Bool {
        Set(results.map { "\($0.failure ?? "") \($0.width) \($0.height) \($0.digest)" }).count <= 1
    }

    var format: String {
        picture.map { $0.contentType.split(separator: "/").last.map { $0.uppercased() } ?? "" } ?? "-"
    }
    var size: String { picture.map { "\($0.width) × \($0.height)" } ?? "-" }
}

/// The whole result.
struct Tally {
    let pictures: [PictureTally]
    let processes: Int

    private var failed: [PictureTally] { pictures.filter { $0.failure != nil } }
    private var shown: [PictureTally] { pictures.filter { $0.failure == nil } }
    private var bytes: Int { shown.reduce(0) { $0 + ($1.picture?.bytes ?? 0) } }

    /// What is not as it should be.
    var complaints: [String] {
        pictures.filter { $0.downloads > 1 }.map { "\($0.name) was transferred \($0.downloads) times" }
            + pictures.filter { !$0.agrees }.map { "\($0.name): the processes got different answers" }
            + pictures.filter { $0.results.count != processes }.map { "\($0.name): answers are missing" }
    }

    /// One sentence.
    var summary: String {
        let downloads = pictures.reduce(0) { $0 + $1.downloads }
        let decodes = pictures.reduce(0) { $0 + $1.decodes }
        var text =
            "\(count(pictures.count, "image")) × \(count(processes, "process", "processes")) = "
            + "\(count(pictures.count * processes, "request")): \(count(downloads, "download")), "
            + "\(count(decodes, "decoding")), \(Self.megabytes(bytes)) of pixels held once instead of \(processes) times "
            + "(\(Self.megabytes(bytes * processes)))"
        if !failed.isEmpty {
            let imageErrors: Set<ErrorCode> = [
                .decodeFailed, .truncated, .unsupportedFormat, .tooManyPixels, .emptyImage, .decoderCrashed,
            ]
            let areImages = failed.allSatisfy {
                ErrorCode(rawValue: $0.failure ?? "").map(imageErrors.contains) == true
            }
            text += "; \(failed.count) could not be " + (areImages ? "decoded" : "loaded")
        }
        return text + "."
    }

    /// One line for each picture.
    var table: String {
        let isTerminal = isatty(1) == 1
        let nameWidth = min(44, max(8, pictures.map(\.name.count).max() ?? 0))
        func line(_ cells: [String]) -> String {
            let widths = [nameWidth, 7, 14, 10, 11, 11, 20]
            var line = pad(cells[0], nameWidth) + "  " + pad(cells[1], 6)
            for (cell, width) in zip(cells.dropFirst(2), widths.dropFirst(2)) { line += pad(cell, width, right: true) }
            return line
        }
        func colored(_ text: String, _ code: String) -> String { isTerminal ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text }
        let head = line(["image", "format", "size", "requests", "downloads", "decodings", "same pages in"])
        var lines = [colored(head, "1"), String(repeating: "─", count: head.count)]
        for picture in pictures {
            let name = picture.name.count > nameWidth ? picture.name.prefix(nameWidth - 1) + "…" : picture.name
            let (requests, downloads) = ("\(picture.results.count)", "\(picture.downloads)")
            if let failure = picture.failure {
                lines.append(colored(line([name, "", failure, requests, downloads, "-", "-"]), "31"))
            } else {
                let sharers = "\(picture.sharers) of \(processes) processes"
                lines.append(
                    line([name, picture.format, picture.size, requests, downloads, "\(picture.decodes)", sharers]))
            }
        }
        return lines.map { $0 + "\n" }.joined()
    }

    private func pad(_ text: String, _ width: Int, right: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - text.count))
        return right ? space + text : text + space
    }

    private func count(_ number: Int, _ noun: String, _ plural: String? = nil) -> String {
        "\(number) " + (number == 1 ? noun : plural ?? noun + "s")
    }

    static func megabytes(_ bytes: Int) -> String {
        let tenths = (bytes + 50_000) / 100_000
        return "\(tenths / 10).\(tenths % 10) MB"
    }
}
