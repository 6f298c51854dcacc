import Glibc
import Testing

@testable import HTTPCaching

struct HTTPDateTests {
    /// The date as the C library writes it.
    private static func text(_ seconds: Int) -> String {
        var (time, parts) = unsafe (time_t(seconds), tm())
        unsafe gmtime_r(&time, &parts)
        return unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
            unsafe strftime(text.baseAddress!, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
            return unsafe String(cString: text.baseAddress!)
        }
    }

    @Test func `a date is read as it is written`() {
        for day in stride(from: 0, to: 2_932_896, by: 37) {
            let seconds = day * 86_400 + day % 86_400
            #expect(HTTPDate.seconds(Self.text(seconds), now: 0) == seconds)
        }
    }

    private static let now = 784_111_777

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        "sun, 06 NOV 1994 08:49:37 gmt", "SUNDAY, 06-nov-94 08:49:37 Gmt", "sUN nOV  6 08:49:37 1994",
    ])
    func `a date has three forms, in any case`(text: String) {
        #expect(HTTPDate.seconds(text, now: Self.now) == 784_111_777)
    }

    @Test(arguments: [
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Thu, 29 Feb 2024 12:00:00 GMT", 1_709_208_000),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 946_684_799), ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
        ("Tue, 19 Jan 2038 03:14:08 GMT", 2_147_483_648), ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
        ("Sat, 01 Jan 0000 00:00:00 GMT", -62_167_219_200), ("Fri, 31 Dec 9999 23:59:60 GMT", 253_402_300_800),
    ])
    func `a date is counted from 1970`(text: String, seconds: Int) {
        #expect(HTTPDate.seconds(text, now: Self.now) == seconds)
    }

    /// In the autumn of 1994 and of 2026.
    @Test(arguments: [
        (784_111_777, "Sunday, 06-Nov-44 08:49:37 GMT", 2_362_034_977),
        (784_111_777, "Sunday, 06-Nov-45 08:49:37 GMT", -762_189_023),
        (1_795_000_000, "Sunday, 06-Nov-76 08:49:37 GMT", 3_371_878_177),
        (1_795_000_000, "Sunday, 06-Nov-77 08:49:37 GMT", 247_654_177),
    ])
    func `a year of two digits is at most fifty years ahead`(now: Int, text: String, seconds: Int) {
        #expect(HTTPDate.seconds(text, now: now) == seconds)
    }

    @Test(arguments: [
        "", " ", "0", "-1", "now", ",,,,,,", "a b c d e", "a b c d e f", "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06 Nov 1994 08:49 GMT",
        "Sun, 06 Nov 1994 08::49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 06 Nov 1994 08:49:37 +0000", "Sun, 06 Nov 19940 08:49:37 GMT", "Sun, +6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 99999999999999999999 08:49:37 GMT", "Sun Nov 6 x 1994", "Sun Nov 6 1994",
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT", "Sun, ٠٦ Nov 1994 08:49:37 GMT",
        // Nearly one of the forms.
        "Sun, 06 Nov 94 08:49:37 GMT", "Sun 06 Nov 1994 08:49:37 GMT", "Sun,06 Nov 1994 08:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT", "Sunday, 06-Nov-1994 08:49:37 GMT", "Sunday, 06 Nov 94 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT", "Sunday, 06 Nov 1994 08:49:37 GMT", "Sun, 06  Nov  1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08.49.37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 AEST", "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 GMT ", " Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 November 1994 08:49:37 GMT",
        "06 Nov 1994 08:49:37 GMT", "Foo, 06 Nov 1994 08:49:37 GMT", "Sun Nov 6 08:49:37 1994",
        "Sun Nov 006 08:49:37 1994", "Sun Nov  6 08:49:37 94", "Sun Nov  6 08:49:37 1994 GMT", "1994-11-06T08:49:37Z",
        // Days that do not exist.
        "Thu, 31 Feb 2050 02:01:18 GMT", "Wed, 30 Feb 2000 00:00:00 GMT", "Mon, 29 Feb 1900 00:00:00 GMT",
        "Thu, 29 Feb 2023 12:00:00 GMT", "Mon, 31 Apr 2023 12:00:00 GMT", "Saturday, 29-Feb-25 00:00:00 GMT",
        "Wed Feb 30 00:00:00 2022",
    ])
    func `what is no date is none`(text: String) {
        #expect(HTTPDate.seconds(text, now: Self.now) == nil)
    }
}

struct CacheControlTests {
    @Test func `directives are known by their names`() {
        let control = CacheControl(#"Public,No-Cache="a,b",  stale-if-error = "5" ,IMMUTABLE,s-maxage=7;x=1"#)
        #expect(control.contains(.public) && control.contains(.noCache) && control.contains(.immutable))
        #expect(!control.contains(.noStore) && !control.contains(.private))
        #expect(control[.staleIfError] == 5)
        #expect(control[.sharedMaxAge] == 0)
        #expect(control[.maxAge] == nil && control[.staleWhileRevalidate] == nil)
        #expect(CacheControl(nil) == CacheControl(""))
    }

    @Test(arguments: [
        #"max-age="60, no-store"#, #"max-age="60\", no-store"#, #"x=", no-store"#, #"x="a"b, no-store"#,
        #"x="\"", no-store"#, "=, no-store", ",,=,,no-store", #"",no-store"#, "no-store=1", "no-store ,",
        "x=\u{0},no-store",
    ])
    func `no directive is lost behind what is malformed`(field: String) {
        #expect(CacheControl(field).contains(.noStore))
    }

    @Test(arguments: [
        #"x="no-store""#, #"x=", no-store,""#, #"x="\", no-store,""#, "no-stor\u{E9}", "x-no-store", "x=no-store",
        #""no-store""#, "no store",
    ])
    func `what is quoted or otherwise named is no directive`(field: String) {
        #expect(!CacheControl(field).contains(.noStore))
    }

    @Test(
        .timeLimit(.minutes(10)),
        arguments: ["\"", "a=\"", "a=\"\\", "a=\"\",", ",", "=", "max-age=", "max-age=9,", "\\"])
    func `a long field takes no long time`(unit: String) {
        #expect(CacheControl(String(repeating: unit, count: 20_000) + ",no-store")[.maxAge] ?? 0 <= 9)
    }

    @Test func `bytes at random are read`() {
        var random = SystemRandomNumberGenerator()
        let alphabet = ["\"", "\\", ",", "=", " ", "\t", "max-age", "9", "private", "\u{E9}"]
        for _ in 0..<5000 {
            let field = (0..<12).compactMap { _ in alphabet.randomElement(using: &random) }.joined()
            let seconds = CacheControl(field)[.maxAge]
            #expect(seconds.map { $0 >= 0 && $0 <= CacheControl.mostSeconds } ?? true, "\(field)")
        }
    }
}

struct VaryTests {
    private func key(_ vary: String?, _ fields: [String: String]) -> String? { Vary.key(vary) { fields[$0] } }

    @Test func `fields stand in one form`() {
        let fields = ["accept": " image/png,  image/*\t;q=0.5 ", "accept-language": "en", "cookie": ""]
        let expected = "accept: image/png, image/* ;q=0.5\naccept-language: en\n"
        #expect(key("Accept-Language, ACCEPT,, accept", fields) == expected)
        #expect(key(nil, fields) == "")
        #expect(key("", fields) == "")
        #expect(key("accept, *", fields) == nil)
        #expect(key("*", fields) == nil)
        #expect(Vary.names("B, a") == ["a", "b"])
    }

    @Test func `requests match when the fields do`() {
        #expect(key("accept", ["accept": "a  b"]) == key("Accept", ["accept": " a b", "cookie": "c"]))
        #expect(key("accept", ["accept": "a"]) != key("accept", ["accept": "b"]))
        #expect(key("accept", ["accept": ""]) != key("accept", [:]))
        #expect(key("a, b", ["a": "1\nb: 2"]) != key("a, b", ["a": "1", "b": "2"]))
    }
}
