import HTTPValues
import Testing

struct AddressPolicyTests {
    private func address(_ text: String) throws -> IPAddress { try #require(IPAddress(text), "\(text)") }

    // MARK: Text

    @Test(arguments: [
        ("0.0.0.0", "0.0.0.0"), ("255.255.255.255", "255.255.255.255"), ("::", "::"), ("::1", "::1"), ("1::", "1::"),
        ("2001:DB8:0:0:8:800:200C:417A", "2001:db8::8:800:200c:417a"), ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"), ("1:0:3:4:5:6:7:8", "1:0:3:4:5:6:7:8"),
        ("::ffff:1.2.3.4", "::ffff:102:304"), ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"),
        ("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"), ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
    ])
    func `an address is read and written in its canonical form`(text: String, canonical: String) throws {
        #expect(try address(text).description == canonical)
        #expect(try address(canonical) == address(text))
    }

    @Test(arguments: [
        "", ".", ":", ":::", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.4 ", "+1.2.3.4", "0x7f.0.0.1",
        "1..2.3",
        "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "1:2:3:4:5:6:7:8::", ":1:2:3:4:5:6:7", "1:2:3:4:5:6:7:",
        "12345::", "g::", "+1::", "fe80::1%eth0", "[::1]", "::1.2.3", "::1.2.3.4:5", "1.2.3.4::", "localhost",
    ])
    func `an invalid address is rejected`(text: String) {
        #expect(IPAddress(text) == nil)
    }

    @Test func `an address has 4 or 16 bytes`() {
        #expect(IPAddress(bytes: [1, 2, 3, 4])?.description == "1.2.3.4")
        #expect(IPAddress(bytes: [UInt8](repeating: 0, count: 16))?.description == "::")
        #expect(IPAddress(bytes: []) == nil)
        #expect(IPAddress(bytes: [UInt8](repeating: 0, count: 15)) == nil)
    }

    // MARK: Ranges

    @Test(arguments: [
        ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"), ("10.1.2.3/8", "10.0.0.0", "9.255.255.255"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.2"), ("0.0.0.0/0", "255.255.255.255", "::"), ("::/0", "ffff::", "1.2.3.4"),
        ("192.168.128.0/17", "192.168.255.1", "192.168.127.255"), ("fe80::/10", "febf::1", "fec0::"),
        ("::1", "::1", "::2"), ("::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.0"), ("1.2.3.4/31", "1.2.3.5", "1.2.3.6"),
    ])
    func `a range contains the addresses with its prefix`(text: String, inside: String, outside: String) throws {
        let range = try #require(AddressRange(text))
        #expect(range.contains(try address(inside)))
        #expect(!range.contains(try address(outside)))
        #expect(AddressRange(range.description) == range)
    }

    @Test(arguments: [
        "", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "::/129", "10.0.0.0/8/8", "10/8", "a/8",
    ])
    func `an invalid range is rejected`(text: String) {
        #expect(AddressRange(text) == nil)
    }

    // MARK: The policy

    @Test(arguments: [
        "0.0.0.0", "0.255.255.255", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.255",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.170", "192.0.2.1", "192.88.99.1",
        "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255",
        "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1", "::10.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1",
        "64:ff9b:0:0:1::8.8.8.8", "64:ff9b:1::1", "64:ff9b:1::8.8.8.8", "100::1", "100:0:0:1::1", "2001::1",
        "2001:0:7f00:1::", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002::1", "2002:7f00:1::",
        "2002:a00:1::", "2002:808:808::", "3fff::1", "3fff:fff::1", "4000::", "5f00::1", "fc00::1", "fd12::1",
        "fe80::1", "febf::1", "fec0::1", "ff02::1", "ff0e::1", "2606:4700::5efe:127.0.0.1",
        "2606:4700::200:5efe:10.0.0.1",
    ])
    func `an address that is not globally routable is refused`(text: String) throws {
        #expect(!AddressPolicy().permits(try address(text)))
    }

    @Test(arguments: [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.1", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.1", "192.31.196.1", "192.167.255.255",
        "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
        "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450:4001::200e", "2620:4f:8000::1",
        "2606:4700::5efe:8.8.8.8",
    ])
    func `a globally routable address is permitted`(text: String) throws {
        #expect(AddressPolicy().permits(try address(text)))
    }

    @Test func `an allowed range is permitted and nothing outside it`() throws {
        let policy = AddressPolicy(allowed: [
            try #require(AddressRange("127.0.0.0/8")), try #require(AddressRange("::1")),
        ])
        for text in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "8.8.8.8", "64:ff9b::127.0.0.1"] {
            #expect(policy.permits(try address(text)), "\(text)")
        }
        for text in ["10.0.0.1", "::2", "::127.0.0.1", "2002:7f00:1::", "::ffff:10.0.0.1"] {
            #expect(!policy.permits(try address(text)), "\(text)")
        }
    }

    @Test func `allowing a range of IPv6 does not allow embedded addresses`() throws {
        let policy = AddressPolicy(allowed: [try #require(AddressRange("::/0"))])
        for text in ["::1", "::", "fe80::1", "2002:808:808::", "64:ff9b:1::8.8.8.8", "64:ff9b:1:808:8:800::"] {
            #expect(policy.permits(try address(text)), "\(text)")
        }
        for text in [
            "::ffff:127.0.0.1", "::127.0.0.1", "2002:7f00:1::", "64:ff9b::10.0.0.1", "64:ff9b:1::10.0.0.1",
            "64:ff9b:1:7f00:0:100::", "2001:0:7f00:1::f7f7:f7f7", "2001:0:808:808::80ff:fffe", "fe80::5efe:10.0.0.1",
        ] {
            #expect(!policy.permits(try address(text)), "\(text)")
        }
    }
}
