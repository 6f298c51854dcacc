import IPCProtocol
import JSONCoding

extension Arguments {
    /// Reads the value of the flag last read as a crop: "X,Y,WIDTH,HEIGHT".
    ///
    /// - Throws: `UsageError` for any other text.
    mutating func crop(of flag: String) throws(UsageError) -> Crop {
        let text = try value(of: flag)
        let numbers = text.split(separator: ",", omittingEmptySubsequences: false).compactMap { Int($0) }
        let sides = 0...PixelGeometry.maximumSide
        guard numbers.count == 4, text.count(where: { $0 == "," }) == 3, numbers.allSatisfy(sides.contains),
            numbers[2] > 0, numbers[3] > 0
        else {
            throw UsageError(description: "\(flag) needs X,Y,WIDTH,HEIGHT in whole pixels, not \"\(text)\"")
        }
        return Crop(x: numbers[0], y: numbers[1], width: numbers[2], height: numbers[3])
    }

    /// Reads the value of the flag last read as a colour "#rrggbb".
    ///
    /// - Throws: `UsageError` for any other text.
    mutating func opaqueColor(of flag: String) throws(UsageError) -> Color {
        let text = try value(of: flag)
        guard let color = Color(text), text.utf8.count == 7 else {
            throw UsageError(description: "\(flag) needs a colour #rrggbb, not \"\(text)\"")
        }
        return color
    }

    /// Reads the value of the flag last read as a step: its name, and after a colon its fields with commas between them:
    /// "blur:sigma=4", "round:circle".
    ///
    /// - Throws: `UsageError` for any other text.
    mutating func step(of flag: String) throws(UsageError) -> Step {
        let text = try value(of: flag)
        // As in a request, so that the ranges and defaults are the same.
        var json = ""
        for (index, part) in text.split(whereSeparator: { $0 == ":" || $0 == "," }).enumerated() {
            let sides = part.split(separator: "=", maxSplits: 1)
            let (name, value) = index == 0 ? ("op", part) : (String(sides[0]), sides.count == 2 ? sides[1] : "true")
            guard (name + value).utf8.allSatisfy(Self.isPlain) else {
                throw UsageError(description: "\(flag) needs NAME:FIELD=VALUE,..., not \"\(text)\"")
            }
            let number = Double(value).map { $0.isFinite ? Int(exactly: $0).map(String.init) ?? "\($0)" : "0" }
            let written = index == 0 ? nil : number ?? (["true", "false"].contains(value) ? String(value) : nil)
            json += "\(index == 0 ? "{" : ",")\"\(name)\":\(written ?? "\"\(value)\"")"
        }
        guard var fields = try? Fields(reading: Array((json + "}").utf8)[...]) else {
            throw UsageError(description: "\(flag) needs NAME:FIELD=VALUE,..., not \"\(text)\"")
        }
        var step = Step.blank
        step.list(&fields)
        if let problem = fields.problem {
            let field = problem.field == "op" ? "the name" : problem.field
            throw UsageError(description: "\(flag) \(text): \(field) must be \(problem.expected)")
        }
        return step
    }

    /// Whether a character needs no escape in JSON, and none has a meaning of its own here.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: [UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "#"), UInt8(ascii: "+")].contains(byte)
        }
    }
}
