import IPCProtocol
import JSONCoding
import LinuxSystem

/// The value of a setting or flag as it was given. Its readers throw an error for a text that is no such value.
struct GivenValue: Equatable {
    /// What messages call it: the flag, the environment variable, or the line and key of a file.
    let name: String
    let text: String

    func path() throws(UsageError) -> String {
        if text.isEmpty { throw UsageError("\(name) needs a path") }
        return text
    }

    func number(in range: ClosedRange<Int>) throws(UsageError) -> Int {
        guard let number = Int(text), range.contains(number) else {
            throw needs("a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    func frames() throws(UsageError) -> FrameRange {
        let numbers = text.split(separator: "+", omittingEmptySubsequences: false).map { Int($0) }
        guard numbers.count == 2, let first = numbers[0], let count = numbers[1],
            (0...FrameSelection.highestIndex).contains(first), (1...FrameSelection.most).contains(count)
        else { throw needs("the index of a frame and a number of frames such as 24+12") }
        return FrameRange(first: first, count: count)
    }

    func size(_ unit: ByteCount.Unit, orZero: Bool = false) throws(UsageError) -> Int {
        guard let size = ByteCount(text, unit: unit), size.value > 0 || orZero else {
            throw needs("a size such as 64M (K, M, G)")
        }
        return size.value
    }

    func seconds() throws(UsageError) -> Int {
        guard let seconds = Seconds(text) else { throw needs("seconds, or a time such as 30m, 12h or 7d") }
        return seconds.value
    }

    /// The value as a time in seconds; nil for a negative one, which means never.
    func secondsOrNever() throws(UsageError) -> Int? {
        if text.hasPrefix("-"), Seconds(text.dropFirst()) != nil { return nil }
        guard let seconds = Seconds(text) else {
            throw needs("seconds, or a time such as 30m, 12h or 7d (negative: never)")
        }
        return seconds.value
    }

    func choice<Choice>() throws(UsageError) -> Choice where Choice: RawRepresentable<String> & CaseIterable {
        guard let choice = Choice(rawValue: text) else {
            let words = Choice.allCases.map(\.rawValue)
            let error = needs("one of \(words.joined(separator: ", "))")
            throw UsageError(error.description + UsageError.suggestion(for: text, among: words))
        }
        return choice
    }

    /// The value as the alpha of pixels that have one.
    func alpha(_ expected: String) throws(UsageError) -> AlphaMode {
        let mode: AlphaMode = try choice()
        guard mode != .opaque else { throw needs(expected) }
        return mode
    }

    /// The value of a switch, which flags have without a text.
    func isOn() throws(UsageError) -> Bool {
        switch text {
        case "true", "yes", "on", "1": return true
        case "false", "no", "off", "0": return false
        default: throw needs("true or false")
        }
    }

    func group() throws(UsageError) -> UInt32 {
        guard let group = CurrentProcess.findGroup(text) else {
            let remedy = "getent group lists those there are, groupadd makes one"
            throw UsageError("\(name): there is no group \"\(text)\"; \(remedy)")
        }
        return group
    }

    func needs(_ expected: String) -> UsageError {
        UsageError("\(name) needs \(expected), not \"\(text)\"")
    }

    // MARK: Parts of a variant

    func crop() throws(UsageError) -> Crop {
        let numbers = text.split(separator: ",", omittingEmptySubsequences: false).map { Int($0) ?? -1 }
        let sides = 0...PixelGeometry.maximumSide
        guard numbers.count == 4, numbers.allSatisfy(sides.contains), numbers[2] > 0, numbers[3] > 0 else {
            throw needs("X,Y,WIDTH,HEIGHT in whole pixels")
        }
        return Crop(x: numbers[0], y: numbers[1], width: numbers[2], height: numbers[3])
    }

    func position() throws(UsageError) -> Position {
        if let position = Position(named: text) { return position }
        let numbers = text.split(separator: ",", omittingEmptySubsequences: false).map { Double($0) }
        guard numbers.count == 2, let x = numbers[0], let y = numbers[1], (0...1).contains(x), (0...1).contains(y)
        else { throw needs("center, top, bottom-left and so on, entropy, attention, or X,Y with shares from 0 to 1") }
        return .focus(x: x, y: y)
    }

    func presetName() throws(UsageError) -> String {
        guard (1...GetOptions.longestPreset).contains(text.utf8.count),
            Self.plain.subtracting("#+".utf8).union("_".utf8).isSuperset(of: text.utf8)
        else { throw needs("a name of 1 to \(GetOptions.longestPreset) letters, digits, \".\", \"-\" and \"_\"") }
        return text
    }

    func opaqueColor() throws(UsageError) -> Color {
        guard let color = Color(text), text.utf8.count == 7 else { throw needs("a colour #rrggbb") }
        return color
    }

    /// The value as a step: its name, a colon and its fields with commas: "blur:sigma=4", "round:circle".
    func step() throws(UsageError) -> Step {
        // As in a request, so that the ranges and defaults are the same.
        var json = ""
        for (index, part) in text.split(whereSeparator: { $0 == ":" || $0 == "," }).enumerated() {
            let sides = part.split(separator: "=", maxSplits: 1)
            let (field, value) = index == 0 ? ("op", part) : (String(sides[0]), sides.count == 2 ? sides[1] : "true")
            guard Self.plain.isSuperset(of: (field + value).utf8) else { throw needs("NAME:FIELD=VALUE,...") }
            let number = Double(value).map { $0.isFinite ? Int(exactly: $0).map(String.init) ?? "\($0)" : "0" }
            let written = index == 0 ? nil : number ?? (["true", "false"].contains(value) ? String(value) : nil)
            json += "\(index == 0 ? "{" : ",")\"\(field)\":\(written ?? "\"\(value)\"")"
        }
        guard var fields = try? Fields(reading: Array((json + "}").utf8)[...]) else {
            throw needs("NAME:FIELD=VALUE,...")
        }
        var step = Step.blank
        step.list(&fields)
        if let problem = fields.problem {
            if let operation = Step.Operation(rawValue: String(text.prefix { $0 != ":" })),
                problem.field != "op", !operation.fields.contains(problem.field)
            {
                let known = operation.fields.joined(separator: ", ")
                throw UsageError("\(name) \(text): \(problem.field) is unknown; \(operation.rawValue) has \(known)")
            }
            let field = problem.field == "op" ? "the name" : problem.field
            throw UsageError("\(name) \(text): \(field) must be \(problem.expected)")
        }
        return step
    }

    /// The characters that need no escape in JSON, and have no meaning of their own in a step.
    private static let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.#+".utf8)
}
