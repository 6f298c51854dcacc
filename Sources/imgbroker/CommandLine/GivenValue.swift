import IPCProtocol
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

    /// The value as the index of a first frame and a number of frames.
    func frames() throws(UsageError) -> FrameRange {
        let numbers = text.split(separator: "+", omittingEmptySubsequences: false).map { Int($0) }
        guard numbers.count == 2, let first = numbers[0], let count = numbers[1],
            (0...FrameSelection.highestIndex).contains(first), (1...FrameSelection.most).contains(count)
        else { throw needs("the index of a frame and a number of frames such as 24+12") }
        return FrameRange(first: first, count: count)
    }

    /// The value as a number of bytes or pixels with K, M or G.
    func size(_ unit: ByteCount.Unit, orZero: Bool = false) throws(UsageError) -> Int {
        guard let size = ByteCount(text, unit: unit), size.value > 0 || orZero else {
            throw needs("a size such as 64M (K, M, G)")
        }
        return size.value
    }

    /// The value as a time in seconds: "45", "90s", "30m", "12h", "7d".
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

    /// The value as a case of an enumeration; the error lists all.
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

    /// The value as the name or number of a group that exists.
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
}
