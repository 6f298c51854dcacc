import IPCProtocol

/// The sizes in which each picture is asked for. The broker makes them; the demonstration scales nothing.
enum PictureSize: String, CaseIterable, Sendable {
    /// Exactly so large, cropped at the middle.
    case small
    /// Whole, and within these bounds.
    case medium
    /// As it is.
    case full

    /// The bounds; nil for all there is.
    var box: (width: Int, height: Int)? {
        switch self {
        case .small: (64, 64)
        case .medium: (320, 240)
        case .full: nil
        }
    }

    var name: String {
        switch self {
        case .small, .medium: "\(box!.width) × \(box!.height)"
        case .full: "full size"
        }
    }

    /// What to ask the broker for.
    var options: GetOptions {
        var options = GetOptions()
        options.variant.width = box?.width
        options.variant.height = box?.height
        options.variant.fit = self == .small ? .cover : .inside
        return options
    }
}

/// One thing that every process asks for.
struct Wish: Sendable {
    let url: String
    let size: PictureSize

    init(url: String, size: PictureSize) {
        (self.url, self.size) = (url, size)
    }

    /// Reads what `line` says.
    init?(line: some StringProtocol) {
        let words = line.split(separator: " ")
        guard words.count == 2, let size = PictureSize(rawValue: String(words[0])) else { return nil }
        self.init(url: String(words[1]), size: size)
    }

    var line: String { "\(size.rawValue) \(url)" }
}
