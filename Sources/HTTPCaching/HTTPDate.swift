/// Dates as HTTP writes them.
public enum HTTPDate {
    /// The seconds since 1970 of an HTTP-date in any of its three forms, in any case (RFC 9110, section 5.6.7; RFC 9111,
    /// section 4.2): "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"; nil
    /// when it is none. A year of two digits is the latest that is at most 50 years after `now`, in seconds since 1970.
    public static func seconds(_ text: String, now: Int) -> Int? {
        var words = text.split { $0 == " " || $0 == "-" || $0 == "," }
        // The name of the day says nothing that is not known.
        guard (5...6).contains(words.count) else { return nil }
        words.removeFirst()
        // Another zone would mean a time that is not computed here (RFC 9111, section 4.2).
        if words.count == 5, !["gmt", "utc"].contains(words.removeLast().lowercased()) { return nil }
        // asctime's order, brought into that of the others.
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

    private static let fiftyYears = (50 * 365 + 13) * 86_400

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
