import Testing

@testable import imgfetch

@Suite struct RetryAfterTests {
    @Test(arguments: [
        ("1", 1000), ("0", 1000), ("120", 120_000), ("601", 600_000), ("99999999999999999999999", 600_000),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 37_000), ("Sun, 06 Nov 1994 08:00:00 GMT", 1000),
        ("Sun, 06 Nov 2094 08:00:00 GMT", 600_000), ("", nil), ("-1", nil), ("1.5", nil), ("soon", nil),
        ("Sun, 06 Foo 1994 08:49:37 GMT", nil), ("Sun, 32 Nov 1994 08:49:37 GMT", nil), ("a b c d e", nil),
        ("Sun Nov 6 x 1994", nil),
    ])
    func `the delay is bounded`(value: String, milliseconds: Int?) {
        #expect(RetryAfter.milliseconds(value, now: 784_111_740) == milliseconds)
    }
}
