package enum HTTPDate {
    /// Returns the seconds since 1970 of an HTTP-date in any of its three forms, in any case (RFC 9110, section 5.6.7;
    /// RFC 9111, section 4.2): "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
    /// "Sun Nov 6 08:49:37 1994"; nil for any other text, and for a day that its month does not have. Only the name of
    /// the day may be that of another one. A two-digit year is the latest that is at most 50 years after `now`, in
    /// seconds since 1970.
    package static func seconds(_ text: String, now: Int) -> Int? {
        let text = DateText(text)
        let usual = text.withZone(DateText.days, separator: " ", yearDigits: 4)
        guard let date = usual ?? text.withZone(DateText.longDays, separator: "-", yearDigits: 2) ?? text.ofAsctime
        else { return nil }
        let years = date.isShortYear ? [date.year + 2100, date.year + 2000, date.year + 1900] : [date.year]
        let dates = years.filter { (1...lastDay(ofMonth: date.month, in: $0)).contains(date.day) }.map { year in
            days(toYear: year, month: date.month, day: date.day) * 86_400 + date.second
        }
        return dates.first { $0 - now <= fiftyYears } ?? dates.last
    }

    private static let fiftyYears = (50 * 365 + 13) * 86_400

    fileprivate static let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ]

    private static func lastDay(ofMonth month: Int, in year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Returns the number of days from 1970-01-01 to a Gregorian date, computed with years that begin in March.
    private static func days(toYear year: Int, month: Int, day: Int) -> Int {
        let year = month > 2 ? year : year - 1
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

/// The text of a date, from which parts are taken at the front.
private struct DateText {
    /// The parts of a date, checked one by one.
    struct Parts {
        var year = 0
        var isShortYear = false
        /// From 1 to 12.
        var month = 0
        var day = 0
        /// The second of the day.
        var second = 0
    }

    static let days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    static let longDays = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

    private var rest: ArraySlice<UInt8>

    init(_ text: String) {
        rest = text.utf8.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }[...]
    }

    /// "Sun, 06 Nov 1994 08:49:37 GMT", or "Sunday, 06-Nov-94 08:49:37 GMT".
    func withZone(_ days: [String], separator: String, yearDigits: Int) -> Parts? {
        var text = self
        guard text.take(oneOf: days) != nil, text.take(", "), let day = text.take(digits: 2), text.take(separator),
            let month = text.take(oneOf: HTTPDate.months), text.take(separator),
            let year = text.take(digits: yearDigits), text.take(" "), let second = text.takeClock(),
            text.take(" gmt"), text.rest.isEmpty
        else { return nil }
        return Parts(year: year, isShortYear: yearDigits == 2, month: month + 1, day: day, second: second)
    }

    /// "Sun Nov  6 08:49:37 1994".
    var ofAsctime: Parts? {
        var text = self
        guard text.take(oneOf: Self.days) != nil, text.take(" "), let month = text.take(oneOf: HTTPDate.months),
            text.take(" "), let day = text.take(digits: text.take(" ") ? 1 : 2), text.take(" "),
            let second = text.takeClock(), text.take(" "), let year = text.take(digits: 4), text.rest.isEmpty
        else { return nil }
        return Parts(year: year, month: month + 1, day: day, second: second)
    }

    private mutating func take(_ text: String) -> Bool {
        guard rest.starts(with: text.utf8) else { return false }
        rest = rest.dropFirst(text.utf8.count)
        return true
    }

    private mutating func take(oneOf texts: [String]) -> Int? { texts.firstIndex { take($0) } }

    private mutating func take(digits count: Int) -> Int? {
        let digits = rest.prefix(count)
        guard digits.count == count, digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
            return nil
        }
        rest = rest.dropFirst(count)
        return digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
    }

    /// Takes "08:49:37", which may be a leap second. Returns the second of the day.
    private mutating func takeClock() -> Int? {
        guard let hour = take(digits: 2), take(":"), let minute = take(digits: 2), take(":"),
            let second = take(digits: 2), hour < 24, minute < 60, second <= 60
        else { return nil }
        return hour * 3_600 + minute * 60 + second
    }
}
