/// A time of the Gregorian calendar, in UTC.
package struct CalendarTime: Equatable, Sendable {
    package let year: Int
    /// 1 to 12.
    package let month: Int
    /// 1 to 31.
    package let day: Int
    package let hour: Int
    package let minute: Int
    package let second: Int

    /// Creates the time that is `seconds` after the start of 1970, at least 0.
    package init(secondsSince1970 seconds: Int) {
        let (days, rest) = seconds.quotientAndRemainder(dividingBy: 86_400)
        // Years begin in March, so that the leap day is a year's last, in eras of 400 years.
        let era = (days + 719_468) / 146_097
        let dayOfEra = days + 719_468 - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let march = (5 * dayOfYear + 2) / 153
        month = march < 10 ? march + 3 : march - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        day = dayOfYear - (153 * march + 2) / 5 + 1
        (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60)
    }

    /// The time in the notation of RFC 3339, with these milliseconds.
    package func text(milliseconds: Int) -> String {
        let date = "\(Self.padded(year, 4))-\(Self.padded(month))-\(Self.padded(day))"
        return "\(date)T\(clock).\(Self.padded(milliseconds, 3))Z"
    }

    /// Hour, minute and second, as in 08:49:37.
    package var clock: String { [hour, minute, second].map { Self.padded($0) }.joined(separator: ":") }

    /// A number with at least `count` digits.
    package static func padded(_ number: Int, _ count: Int = 2) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
    }
}
