import IPCProtocol
import JSONCoding

extension GivenValue {
    /// The value as a crop: "X,Y,WIDTH,HEIGHT".
    func crop() throws(UsageError) -> Crop {
        let numbers = text.split(separator: ",", omittingEmptySubsequences: false).map { Int($0) ?? -1 }
        let sides = 0...PixelGeometry.maximumSide
        guard numbers.count == 4, numbers.allSatisfy(sides.contains), numbers[2] > 0, numbers[3] > 0 else {
            throw needs("X,Y,WIDTH,HEIGHT in whole pixels")
        }
        return Crop(x: numbers[0], y: numbers[1], width: numbers[2], height: numbers[3])
    }

    /// The value as a position: a name, or a focal point in shares of the width and the height.
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

    /// The value as a colour "#rrggbb".
    func opaqueColor() throws(UsageError) -> Color {
        guard let color = Color(text), text.utf8.count == 7 else { throw needs("a colour #rrggbb") }
        return color
    }

    /// The value as a step: its name, and after a colon its fields with commas between them:
    /// "blur:sigma=4", "round:circle".
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
