import Testing

@testable import imgfetch

@Suite struct TransferURLTests {
    @Test(arguments: [
        ("http://a/b", "http://a:8080/b"), ("http://a/b", "https://a/b"), ("http://a/b", "http://b/b"),
        ("http://a/b", "http://a.b/"), ("http://[::1]/", "http://[::2]/"),
    ])
    func `another scheme, host or port is another server`(left: String, right: String) throws {
        #expect(try !TransferURL(left).hasSameOrigin(as: TransferURL(right)))
    }

    @Test(arguments: [
        ("http://a/b", "http://A:80/c?d"), ("https://a/", "HTTPS://a:443"), ("http://127.0.0.1/", "http://0x7f.1/"),
    ])
    func `the same server may be written in several ways`(left: String, right: String) throws {
        #expect(try TransferURL(left).hasSameOrigin(as: TransferURL(right)))
    }

    @Test func `a redirect may lead to https but not away from it`() throws {
        #expect(try TransferURL("http://a/").redirected(to: "https://a/").scheme == "https")
        #expect(throws: TransferURL.Refusal.downgrade) { try TransferURL("https://a/").redirected(to: "http://a/") }
        #expect(throws: TransferURL.Refusal.scheme("ftp")) { try TransferURL("https://a/").redirected(to: "ftp://a/") }
    }

    @Test func `user information and fragment are removed`() throws {
        #expect(try TransferURL("http://u:p@a/b?c#d").text == "http://a/b?c")
    }

    @Test(arguments: [
        ("http://a/b?", "http://a/b?", "/b?"), ("http://a?", "http://a/?", "/?"),
        ("http://a/b?#c?", "http://a/b?", "/b?"), ("http://a/b?c", "http://a/b?c", nil),
        ("http://a/b", "http://a/b", nil), ("http://a/b??", "http://a/b??", nil),
        ("http://a/b#c?", "http://a/b", nil), ("https://u@a:8/?", "https://a:8/?", "/?"),
    ])
    func `an empty query is kept`(text: String, kept: String, target: String?) throws {
        let url = try TransferURL(text)
        #expect(url.text == kept)
        #expect(try TransferURL(kept) == url)
        #expect(url.requestTarget(isForProxy: false) == target)
        #expect(url.requestTarget(isForProxy: true) == (url.scheme == "http" ? target.map { _ in kept } : target))
    }

    @Test(arguments: [
        ("/x", "https://h/x"), ("x?y", "https://h/a/x?y"), ("../x", "https://h/x"), ("//i/x", "https://i/x"),
        ("https://i/x", "https://i/x"), ("http://h/x", nil), ("HTTP://i/x", nil), ("?q", "https://h/a/b?q"),
        ("?", "https://h/a/b?"), ("x?", "https://h/a/x?"), ("x:8/y", nil), ("data:,", nil),
    ])
    func `a reference is resolved against its base URL`(reference: String, target: String?) throws {
        let base = try TransferURL("https://h/a/b")
        #expect((try? base.redirected(to: reference))?.text == target)
    }
}
