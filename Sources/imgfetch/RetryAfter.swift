/// What `Retry-After` asks for (RFC 9110, section 10.2.3).
enum RetryAfter {
    /// The shortest and the longest patience that is believed.
    static let range = 1_000...600_000

    /// The milliseconds from `now` (seconds since 1970) that `value`, seconds or an HTTP-date, asks for; nil when it is
    /// neither.
    static func milliseconds(_ value: String, now: Int) -> Int? {
        let seconds: Int
        if !value.isEmpty, value.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            seconds = Int(value) ?? .max
        } else if let date = secondsSince1970(value) {
            seconds = date - now
        } else {
            return nil
        }
        return min(max(seconds, range.lowerBound / 1000), range.upperBound / 1000) * 1000
    }

    /// Reads an HTTP-date in any of its three forms (RFC 9110, section 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT",
    /// "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994".
    static func secondsSince1970(_ text: String) -> Int? {
        var words = text.split { $0 == " " || $0 == "-" || $0 == "," }
        guard words.count >= 5 else { return nil }
        words.removeFirst()
        // asctime's order, brought into that of the others.
        if Int(words[0]) == nil { words = [words[1], words[0], words[3], words[2]] }
        let clock = words[3].split(separator: Character(":")).compactMap { Int($0) }
        guard let day = Int(words[0]), let month = months.firstIndex(of: words[1].lowercased()),
            var year = Int(words[2]), clock.count == 3, (1...31).contains(day), (0...9999).contains(year),
            (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        // Two digits mean this century, which the form of 1994 does not outlive.
        if year < 100 { year += year < 70 ? 2000 : 1900 }
        return days(toYear: year, month: month + 1, day: day) * 86_400 + clock[0] * 3_600 + clock[1] * 60 + clock[2]
    }

    private static let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ]

    /// The days from 1970-01-01 to a date of the Gregorian calendar, counted in years that begin in March.
    private static func days(toYear year: Int, month: Int, day: Int) -> Int {
        let year = month > 2 ? year : year - 1
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}
