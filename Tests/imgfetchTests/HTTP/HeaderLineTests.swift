import HTTPValues
import IPCProtocol
import Testing

@testable import imgfetch

@Suite struct HeaderLineTests {
    @Test func `credentials for one server are left out for another`() {
        let fields = ["Cookie", "AUTHORIZATION", "host", "accept", "x"].map { HeaderField(name: $0, value: "v") }
        let lines = RequestLines.lines(fields, kind: .full, withCredentials: false)
        #expect(lines == ["User-Agent: imgbroker/0.1.0", "Accept-Encoding: identity", "accept: v", "x: v"])
    }
}
