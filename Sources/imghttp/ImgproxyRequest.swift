import IPCProtocol

/// A URL in the form of imgproxy: `/SIGNATURE/OPTION…/plain/URL@EXTENSION`, or with the source's URL in Base64.
struct ImgproxyRequest: Equatable {
    var signature: String
    /// The signed part of the path: all that follows the signature, from its slash on.
    var signed: String
    var rendition = Rendition()
    var source = ""
    /// The time in Unix seconds after which the URL is no longer valid; nil without one.
    var expires: Int?

    /// Reads a request's target; its query is ignored, as by imgproxy.
    init(target: String) throws(HTTPProblem) {
        let path = target.prefix { $0 != "?" }
        let parts = path.dropFirst().split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard path.first == "/", parts.count == 2, !parts[0].isEmpty else {
            throw HTTPProblem(404, "there are /health, /pipeline, and paths of a signature, options and a source")
        }
        signature = String(parts[0])
        signed = "/" + parts[1]
        rendition.format = .accepted
        var segments = parts[1].split(separator: "/", omittingEmptySubsequences: false)[...]
        while let segment = segments.first, segment != "plain", segment.contains(":") {
            guard let option = TextCoding.percentDecoded(segment) else {
                throw HTTPProblem("the option \"\(segment)\" is not percent-encoded UTF-8")
            }
            try apply(option)
            segments.removeFirst()
        }
        let longest = Double(max(rendition.width ?? 0, rendition.height ?? 0)) * rendition.ratio
        if longest.rounded() > Double(PixelGeometry.maximumSide) { throw HTTPProblem("the size is too large") }
        let isPlain = segments.first == "plain"
        try readSource(isPlain ? segments.dropFirst() : segments, isPlain: isPlain)
    }

    private mutating func readSource(_ segments: ArraySlice<Substring>, isPlain: Bool) throws(HTTPProblem) {
        let text = segments.joined(separator: isPlain ? "/" : "")
        let parts = text.split(separator: isPlain ? "@" : ".", omittingEmptySubsequences: false)
        guard let address = parts.first, !address.isEmpty, parts.count <= 2 else {
            throw HTTPProblem("the path has no source, or several extensions")
        }
        if address == "enc" || segments.first == "enc" { throw HTTPProblem("encrypted sources are not supported") }
        let url =
            isPlain
            ? TextCoding.percentDecoded(address)
            : TextCoding.bytes(ofBase64: address).flatMap { String(validating: $0, as: UTF8.self) }
        guard let url else {
            throw HTTPProblem("the source is no \(isPlain ? "percent-encoded" : "Base64-encoded") URL")
        }
        source = url
        if parts.count == 2, !parts[1].isEmpty { try setFormat(String(parts[1]), "the extension") }
    }

    /// The options with one argument at most.
    private static let single: Set = [
        "resizing_type", "rt", "width", "w", "height", "h", "enlarge", "el", "dpr", "quality", "q", "blur", "bl",
        "format", "f", "ext", "expires", "exp", "strip_metadata", "sm", "strip_color_profile", "scp", "auto_rotate",
        "ar",
    ]

    private mutating func apply(_ option: String) throws(HTTPProblem) {
        let words = option.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        let arguments = Arguments(option: words[0], Array(words.dropFirst()))
        if Self.single.contains(words[0]) { try arguments.end(at: 1) }
        switch words[0] {
        case "resize", "rs":
            try setMethod(arguments, 0)
            try setSize(arguments, from: 1)
        case "size", "s": try setSize(arguments, from: 0)
        case "resizing_type", "rt": try setMethod(arguments, 0)
        case "width", "w": rendition.width = try arguments.side(0)
        case "height", "h": rendition.height = try arguments.side(0)
        case "enlarge", "el": rendition.enlargement = try arguments.boolean(0) ? .always : .never
        case "dpr": rendition.ratio = try arguments.number(0, in: 0.01...100) ?? 1
        case "gravity", "g": try setGravity(arguments)
        case "quality", "q":
            let quality = try arguments.number(0, in: 0...100) ?? 0
            rendition.quality = quality < 1 ? Rendition.usualQuality : Int(quality)
        case "blur", "bl":
            let sigma = try arguments.number(0, in: 0...250) ?? 0
            setStep(sigma == 0 ? nil : .blur(sigma: max(sigma, 0.1))) { if case .blur = $0 { true } else { false } }
        case "background", "bg": try setBackground(arguments)
        case "format", "f", "ext": try setFormat(arguments[0] ?? "", "the option \"\(words[0])\"")
        case "cachebuster", "cb": break
        case "expires", "exp": expires = try arguments.number(0, in: 0...1e12).map { Int($0) }
        // Results have no metadata, are in sRGB, and are turned as the metadata says.
        case "strip_metadata", "sm", "strip_color_profile", "scp", "auto_rotate", "ar":
            guard try arguments.boolean(0) else { throw arguments.wrong("true") }
        default: throw HTTPProblem("the option \"\(words[0])\" is not supported")
        }
    }

    private mutating func setMethod(_ arguments: Arguments, _ index: Int) throws(HTTPProblem) {
        switch arguments[index] {
        case nil: break
        case "fit": rendition.method = .fit
        case "fill": rendition.method = .fill
        case "force": rendition.method = .force
        default: throw arguments.wrong("fit, fill or force")
        }
    }

    private mutating func setSize(_ arguments: Arguments, from start: Int) throws(HTTPProblem) {
        try arguments.end(at: start + 3)
        if arguments[start] != nil { rendition.width = try arguments.side(start) }
        if arguments[start + 1] != nil { rendition.height = try arguments.side(start + 1) }
        if arguments[start + 2] != nil {
            rendition.enlargement = try arguments.boolean(start + 2) ? .always : .never
        }
    }

    private mutating func setGravity(_ arguments: Arguments) throws(HTTPProblem) {
        let names = [
            "no": "top", "so": "bottom", "ea": "right", "we": "left", "noea": "top-right", "nowe": "top-left",
            "soea": "bottom-right", "sowe": "bottom-left", "ce": "center", "sm": "attention",
        ]
        if arguments[0] == "fp" {
            try arguments.end(at: 3)
            guard let x = try arguments.number(1, in: 0...1), let y = try arguments.number(2, in: 0...1) else {
                throw arguments.wrong("fp:X:Y with numbers from 0 to 1")
            }
            rendition.position = .focus(x: x, y: y)
            return
        }
        guard let name = arguments[0].flatMap({ names[$0] }) else {
            throw arguments.wrong("no, so, ea, we, noea, nowe, soea, sowe, ce, sm or fp")
        }
        for index in 1..<arguments.count where try arguments.number(index, in: 0...65_535) ?? 0 != 0 {
            throw arguments.wrong("a gravity without offsets")
        }
        try arguments.end(at: 3)
        rendition.position = Position(named: name)
    }

    private mutating func setBackground(_ arguments: Arguments) throws(HTTPProblem) {
        var color: Color?
        if arguments.count == 3 {
            var channels: [UInt8] = []
            for index in 0..<3 { channels.append(UInt8(try arguments.number(index, in: 0...255) ?? 0)) }
            color = Color(red: channels[0], green: channels[1], blue: channels[2])
        } else if let text = arguments[0] {
            color = arguments.count == 1 && text.utf8.count == 6 ? Color("#" + text) : nil
            if color == nil { throw arguments.wrong("R:G:B or six hexadecimal digits") }
        }
        setStep(color.map { .background($0) }) { if case .background = $0 { true } else { false } }
    }

    /// Sets the only step of a kind.
    private mutating func setStep(_ step: Step?, where isOfKind: (Step) -> Bool) {
        rendition.steps.removeAll(where: isOfKind)
        if let step { rendition.steps.append(step) }
    }

    private mutating func setFormat(_ name: String, _ place: String) throws(HTTPProblem) {
        switch name {
        case "jpg", "jpeg": rendition.format = .fixed(.jpeg)
        case "png": rendition.format = .fixed(.png)
        case "webp": rendition.format = .fixed(.webp)
        default: throw HTTPProblem("\(place) \"\(name)\" is not supported: there are jpg, png and webp")
        }
    }

    private struct Arguments {
        let option: String
        private let words: [String]

        init(option: String, _ words: [String]) { (self.option, self.words) = (option, words) }

        var count: Int { words.count }

        /// An argument; nil for one that is absent or empty.
        subscript(index: Int) -> String? {
            words.indices.contains(index) && !words[index].isEmpty ? words[index] : nil
        }

        func wrong(_ expected: String) -> HTTPProblem {
            HTTPProblem("the option \"\(option)\" must be \(expected)")
        }

        /// Checks that there are at most `count` arguments.
        func end(at count: Int) throws(HTTPProblem) {
            if words.count > count {
                throw HTTPProblem("the argument \"\(words[count])\" of the option \"\(option)\" is not supported")
            }
        }

        func number(_ index: Int, in range: ClosedRange<Double>) throws(HTTPProblem) -> Double? {
            guard let word = self[index] else { return nil }
            guard word.utf8.allSatisfy({ (0x2E...0x39).contains($0) && $0 != 0x2F }), let number = Double(word),
                range.contains(number)
            else { throw wrong("a number from \(Int(range.lowerBound)) to \(Int(range.upperBound))") }
            return number
        }

        /// A side in pixels; nil for 0, which follows from the other.
        func side(_ index: Int) throws(HTTPProblem) -> Int? {
            let side = Int(try number(index, in: 0...Double(PixelGeometry.maximumSide)) ?? 0)
            return side == 0 ? nil : side
        }

        func boolean(_ index: Int) throws(HTTPProblem) -> Bool {
            switch self[index] {
            case "1", "t", "true": true
            case nil, "0", "f", "false": false
            default: throw wrong("true or false")
            }
        }
    }
}
