import HTTPCaching
import HTTPValues
import Testing

/// What responses say about remembering the failures that they cause (RFC 9111, section 3; RFC 9110, section 15.5).
struct FailureTermsTests {
    private static let arrival = FreshnessRow.arrival * 1000

    private static func response(
        _ control: String?, status: Int = 404, expires: String? = nil, age: String? = nil, vary: String? = nil,
        before: Int = 0, redirects: [Redirect] = []
    ) -> ResponseRecord {
        ResponseRecord(
            status: status, requestedAt: arrival - before * 1000, receivedAt: arrival - before * 1000, age: age,
            cacheControl: control, expires: expires, vary: vary, redirects: redirects)
    }

    @Test(
        arguments: [
            (nil, nil), ("max-age=60", 60), ("s-maxage=30, max-age=60", 30), ("no-store", 0),
            ("no-cache, max-age=60", 0),
            ("max-age=0", 0), ("max-age=x", 0), ("must-revalidate", nil),
        ] as [(String?, Int?)])
    func `a failure is remembered as its response says`(control: String?, lifetime: Int?) {
        for status in [200, 204, 404] {
            let terms = FailureTerms(Self.response(control, status: status))
            #expect(terms.lifetime == lifetime && !terms.isPrivate)
        }
    }

    @Test func `other fields count as for an image`() {
        #expect(FailureTerms(Self.response("max-age=60", age: "20")).lifetime == 40)
        #expect(FailureTerms(Self.response("max-age=60", age: "99")).lifetime == 0)
        #expect(FailureTerms(Self.response(nil, expires: "0")).lifetime == 0)
        #expect(FailureTerms(Self.response("max-age=60", vary: "*")).lifetime == 0)
    }

    @Test func `a private failure is its user's`() {
        let terms = FailureTerms(Self.response("private, s-maxage=99, max-age=60"))
        #expect(terms.isPrivate && terms.lifetime == 60)
    }

    @Test func `redirects limit a failure too`() {
        func terms(_ redirect: String?, before: Int = 0, _ control: String?) -> FailureTerms {
            let redirect = Redirect(Self.response(redirect, status: 302, before: before))
            return FailureTerms(Self.response(control, redirects: [redirect]))
        }
        #expect(terms("no-store", nil).lifetime == 0)
        #expect(terms("private", nil).isPrivate)
        #expect(terms("max-age=5", nil).lifetime == 5)
        #expect(terms("max-age=60", before: 20, "max-age=50").lifetime == 40)
        #expect(terms(nil, "max-age=7").lifetime == 7)
        #expect(terms(nil, nil).lifetime == nil)
    }

    @Test func `a temporary redirect without a lifetime lets no lifetime lengthen a failure`() {
        func mayLengthen(_ status: Int, _ redirect: String?) -> Bool {
            let redirect = Redirect(Self.response(redirect, status: status))
            return FailureTerms(Self.response("max-age=3600", redirects: [redirect])).mayLengthen
        }
        for status in [302, 303, 307] {
            #expect(!mayLengthen(status, nil))
            #expect(mayLengthen(status, "max-age=3600"))
        }
        for status in [301, 308] { #expect(mayLengthen(status, nil)) }
        #expect(FailureTerms(Self.response("max-age=3600", status: 302)).mayLengthen)
    }

    @Test func `a failure that varies by cookies from the jar is not remembered`() {
        func lifetime(_ vary: String, sendsCookiesFromJar: Bool) -> Int? {
            FailureTerms(Self.response("max-age=60", vary: vary), sendsCookiesFromJar: sendsCookiesFromJar).lifetime
        }
        #expect(lifetime("Accept, COOKIE", sendsCookiesFromJar: true) == 0)
        #expect(lifetime("Accept", sendsCookiesFromJar: true) == 60)
        #expect(lifetime("Cookie", sendsCookiesFromJar: false) == 60)
        let redirect = Redirect(Self.response("max-age=60", status: 302, vary: "Cookie"))
        let response = Self.response("max-age=60", redirects: [redirect])
        #expect(FailureTerms(response, sendsCookiesFromJar: true).lifetime == 0)
    }
}
