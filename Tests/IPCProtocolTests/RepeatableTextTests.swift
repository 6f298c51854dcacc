import CodingTestSupport
import IPCProtocol
import JSONCoding
import SystemValues
import Testing

/// The recognition of repeated requests, compared with the JSON reader.
struct RepeatableTextTests {
    private let get = #"{"type":"get","id":17,"url":"http://a.example/p?q","variant":{"width":64}}"#

    @Test func usualSpellings() throws {
        let compact = try #require(RepeatableText(Array(get.utf8)[...]))
        #expect(compact.id == 17)
        #expect(String(decoding: compact.rest, as: UTF8.self) == String(get.dropFirst(#"{"type":"get","id":17"#.count)))
        #expect(compact.isPlain)
        let spaced = #"{"type": "get", "id": 17, "url": "http://a.example/"}"#
        #expect(RepeatableText(Array(spaced.utf8)[...])?.id == 17)
        #expect(RepeatableText.releasedBuffer(Array(#"{"type":"release","buffer":12}"#.utf8)[...]) == 12)
        #expect(RepeatableText.releasedBuffer(Array(#"{"type": "release", "buffer": 12}"#.utf8)[...]) == 12)
        // The client library's.
        let release = try ClientMessage.release(buffers: [12]).encoded().dropFirst(Frame.headerLength)
        #expect(RepeatableText.releasedBuffer(release) == 12)
    }

    @Test(arguments: [
        #"{"type":"get","id":-1,"url":"http://a/"}"#, #"{"type":"get","id":1.0,"url":"http://a/"}"#,
        #"{"type":"get","id":01,"url":"http://a/"}"#, #"{"type":"get","id":,"url":"http://a/"}"#,
        #"{"type":"get","id":1234567890123456,"url":"http://a/"}"#, #"{"type":"get","id":1}"#, #"{"type":"get","id":1"#,
        #"{"type":"query","id":1,"url":"http://a/"}"#, #"{"id":1,"type":"get","url":"http://a/"}"#, "", "{",
    ])
    func othersAreForTheGeneralReader(_ text: String) {
        #expect(RepeatableText(Array(text.utf8)[...]) == nil)
    }

    /// Further members of the envelope, or other spellings of them, mean something else with another id.
    @Test(arguments: [
        #""id":2"#, #""headers":{}"#, #""credentials":{"username":"u","password":"p"}"#, #""type":"query""#,
        #""fds":1"#, #""payload":4"#, #""i\u0064":2"#, #""url":"http://a/\u0062""#,
    ])
    func restsThatAreNotPlain(_ member: String) throws {
        let text = #"{"type":"get","id":1,"url":"http://a/",\#(member)}"#
        #expect(try !#require(RepeatableText(Array(text.utf8)[...])).isPlain)
    }

    @Test(arguments: [
        #"{"type":"release","buffer":0}"#, #"{"type":"release","buffer":1,"id":2}"#, #"{"type":"release","buffer":1 }"#,
        #"{"type":"release","buffer":01}"#, #"{"type":"release","buffers":[1,2]}"#,
        #"{"type":"release","buffers":[]}"#, #"{"type":"release","buffers":[0]}"#, #"{"type":"release","buffers":[1]"#,
        #"{"type":"release","buffers":[1]},"#, #"{"type":"release","buffers":1}"#, #"{"type":"release","buffer":1]}"#,
        #"{"type":"release","buffer":1"#,
    ])
    func releasesOfAnotherKind(_ text: String) {
        #expect(RepeatableText.releasedBuffer(Array(text.utf8)[...]) == nil)
    }

    /// Texts with bytes changed, doubled or removed: each recognised text means the same with another id to the JSON reader.
    @Test(arguments: 1...20) func agreesWithTheGeneralReader(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let seeds = [
            get, #"{"type":"release","buffer":7}"#, #"{"type":"release","buffers":[7]}"#,
            #"{"type": "get", "id": 3, "url": "http://b/", "as": "original"}"#,
            #"{"type":"get","id":1,"url":"http://a/","id":2,"type":"query","fds":1}"#,
        ]
        var taken = 0
        for _ in 0..<3000 {
            var text = Array(seeds.randomElement(using: &random)!.utf8)
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let place = Int.random(in: 0..<text.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: text[place] = Array(#"0123456789"\{}[],: eidtypfs"#.utf8).randomElement(using: &random)!
                case 1: text.insert(text.randomElement(using: &random)!, at: place)
                default: if text.count > 1 { text.remove(at: place) }
                }
            }
            if try Self.check(text[...]) { taken += 1 }
        }
        #expect(taken > 300)
    }

    /// Compares one text with the JSON reader. Returns whether it is recognised.
    private static func check(_ text: ArraySlice<UInt8>) throws -> Bool {
        let general = try? ClientMessage.decode(text).0
        if let buffer = RepeatableText.releasedBuffer(text) {
            #expect(general == .message(.release(buffers: [buffer])))
            return true
        }
        guard let short = RepeatableText(text), case .message(.get(let request))? = general, short.isPlain else {
            return false
        }
        #expect(request.id == short.id)
        let other = Array(#"{"type":"get","id":987"#.utf8) + short.rest
        var expected = request
        expected.id = 987
        #expect(try ClientMessage.decode(other[...]).0 == .message(.get(expected)))
        return true
    }

    @Test func answersAreTheSameBytes() throws {
        for (name, reply) in GoldenReplyTests.replies {
            guard case .image(_, let image) = reply else { continue }
            let rest = Reply.restOfImage(image)
            for id in [0, 7, 4_294_967_296, JSONReader.maximumInteger] {
                #expect(Reply.imageFrame(id: id, rest: rest) == Reply.image(id: id, image).encoded(), "\(name)")
            }
        }
    }
}
