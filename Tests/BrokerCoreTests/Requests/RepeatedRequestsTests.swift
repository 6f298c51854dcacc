import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// The table of repeated requests: a request is found only by its own text and user.
@Suite struct RepeatedRequestsTests {
    private let text = Array(#","url":"http://origin.test/a"}"#.utf8)[...]

    private func request() -> RepeatedRequest? {
        guard let url = try? SourceURL("http://origin.test/a") else { return nil }
        let image = ImageReply(
            source: .memory, url: url.text, width: 1, height: 1, pixels: nil, bytes: 4, contentType: "image/png",
            originalWidth: 1, originalHeight: 1, frameCount: 1, etag: nil)
        return RepeatedRequest(
            uid: 1, text: Array(text), key: OriginalKey(GetRequest(id: 1, url: url), uid: 1), image: image,
            buffer: BufferID(number: 1), freshUntil: Instant(nanoseconds: 0), revision: 0)
    }

    @Test func storedFromTheSecondTimeOn() {
        var repeats = RepeatedRequests(seed: 1)
        repeats.note(text, uid: 1, request)
        #expect(repeats.find(text, uid: 1) == nil)
        repeats.note(text, uid: 1, request)
        #expect(repeats.find(text, uid: 1) != nil)
    }

    /// Adds enough other requests for some to collide with it in the table.
    @Test func otherTextsAreNotFoundInItsPlace() {
        var repeats = RepeatedRequests(seed: 1)
        for _ in 0..<2 { repeats.note(text, uid: 1, request) }
        let texts = (0..<50_000).filter { repeats.find((Array(text) + Array("\($0)".utf8))[...], uid: 1) != nil }
        #expect(texts.isEmpty)
        let users = (2..<50_000).filter { repeats.find(text, uid: $0) != nil }
        #expect(users.isEmpty)
    }
}
