/// Parsing and formatting of HTTP dates.
package enum HTTPDate {
    /// Returns the seconds since 1970 of an HTTP-date in any of its three forms, in any case (RFC 9110, section 5.6.7;
    /// RFC 9111, section 4.2): "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
    /// "Sun Nov  6 08:49:37 1994"; nil for any other text. A two-digit year is the latest that is at most 50 years
    /// after `now`, in seconds since 1970.
    package static func seconds(_ text: String, now: Int) -> Int? {
        var words = text.split { $0 == " " || $0 == "-" || $0 == "," }
        // The day's name is redundant.
        guard (5...6).contains(words.count) else { return nil }
        words.removeFirst()
        // Other time zones are not supported (RFC 9111, section 4.2).
        if words.count == 5, !["gmt", "utc"].contains(words.removeLast().lowercased()) { return nil }
        // Reorders the fields of asctime's form to match the other forms.
        if words[0].decimal == nil { words = [words[1], words[0], words[3], words[2]] }
        let clock = words[3].split(separator: ":", omittingEmptySubsequences: false).map { $0.decimal ?? -1 }
        guard let day = words[0].decimal, let month = months.firstIndex(of: words[1].lowercased()),
            let year = words[2].decimal, clock.count == 3, (1...31).contains(day), (0...9999).contains(year),
            (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        let years = words[2].utf8.count == 2 ? [year + 2100, year + 2000, year + 1900] : [year]
        let dates = years.map { year in
            days(toYear: year, month: month + 1, day: day) * 86_400 + clock[0] * 3_600 + clock[1] * 60 + clock[2]
        }
        return dates.first { $0 - now <= fiftyYears } ?? dates.last
    }

    /// Returns a date from 1970 on in the form that senders use (RFC 9110, section 5.6.7).
    package static func text(_ seconds: Int) -> String {
        let (days, rest) = seconds.quotientAndRemainder(dividingBy: 86_400)
        // Years begin in March, in eras of 400 years, as in `days(toYear:month:day:)`.
        let era = (days + 719_468) / 146_097
        let dayOfEra = days + 719_468 - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let march = (5 * dayOfYear + 2) / 153
        let month = march < 10 ? march + 3 : march - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        func padded(_ number: Int, _ count: Int = 2) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
        }
        let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        let date =
            "\(padded(dayOfYear - (153 * march + 2) / 5 + 1)) \(months[month - 1].capitalizedASCII) \(padded(year, 4))"
        let clock = [rest / 3_600, rest / 60 % 60, rest % 60].map { padded($0) }.joined(separator: ":")
        return "\(weekdays[days % 7]), \(date) \(clock) GMT"
    }

    /// Whether `text` is a date exactly as `text(_:)` writes it, so that its seconds represent it without loss.
    package static func isUsual(_ text: String) -> Bool {
        guard text.utf8.count == 29, text.utf8.last == UInt8(ascii: "T"), let seconds = seconds(text, now: 0),
            (0..<253_402_300_800).contains(seconds)
        else { return false }
        return self.text(seconds) == text
    }

    private static let fiftyYears = (50 * 365 + 13) * 86_400

    private static let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ]

    /// Returns the number of days from 1970-01-01 to a Gregorian date, computed with years that begin in March.
    private static func days(toYear year: Int, month: Int, day: Int) -> Int {
        let year = month > 2 ? year : year - 1
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

extension String {
    /// The ASCII word with its first letter in upper case.
    fileprivate var capitalizedASCII: String { prefix(1).uppercased() + dropFirst() }
}
