import JSONCoding
import WorkerProtocol

@testable import HTTPValues
@testable import IPCProtocol

/// Decodes a stream of frames and payloads, which must not depend on how it is split. The first byte is the number of
/// piece lengths that follow. In each frame, the first byte is the payload's length, the second whether it is read or
/// skipped.
func fuzzFrames(_ bytes: [UInt8]) {
    var input = FuzzInput(bytes)
    let pieces = (0..<input.byte() % 16).map { _ in input.byte() * 7 }
    let stream = Array(input.rest)
    let whole = FrameStream(stream, pieces: [])
    expect(whole == FrameStream(stream, pieces: pieces), "frames do not depend on how the stream is split")
    expect(
        whole == FrameStream(stream, pieces: [Int](repeating: 1, count: stream.count)),
        "frames do not depend on arriving byte by byte")
}

/// The frames and payloads decoded from a stream.
private struct FrameStream: Equatable {
    private var frames: [[UInt8]] = []
    private var payloads: [UInt8] = []
    private var failure: Int?
    private var isInsideFrame = false

    init(_ stream: [UInt8], pieces: [Int]) {
        var decoder = FrameDecoder()
        var (rest, wanted) = (stream[...], 0)
        for count in pieces + [stream.count] where failure == nil {
            decoder.append(rest.prefix(count))
            rest = rest.dropFirst(count)
            do throws(FrameDecoder.BadLength) {
                while true {
                    let taken = decoder.takePayload(upTo: wanted)
                    expect(taken.count <= wanted, "a read returns at most the requested payload")
                    payloads += taken
                    wanted -= taken.count
                    guard wanted == 0, let frame = try decoder.next() else { break }
                    frames.append(Array(frame))
                    let payload = Int(frame.first ?? 0)
                    if frame.count > 1, frame.dropFirst().first! % 2 == 1 {
                        wanted = payload
                    } else {
                        decoder.skipPayload(payload)
                    }
                }
            } catch {
                failure = error.length
            }
        }
        isInsideFrame = decoder.isInsideFrame
    }
}

/// Parses JSON as received, and rewritten with other escapes and whitespace, which must be equal. Messages must
/// accept exactly the JSON that the reader accepts.
func fuzzJSON(_ bytes: [UInt8]) {
    guard let value = try? JSONValue(reading: bytes) else {
        expect((try? Fields(reading: bytes[...])) == nil, "a message is JSON")
        return
    }
    expect((try? Fields(reading: bytes[...])) != nil, "all JSON objects can be messages")
    let again = try? JSONValue(reading: value.spelled)
    expect(again == value, "two forms of the same JSON are equal")
}

func fuzzClientMessages(_ bytes: [UInt8]) {
    checkRepeatable(bytes[...])
    guard let (decoded, envelope) = try? ClientMessage.decode(bytes[...]) else { return }
    expect((0...253).contains(envelope.descriptors) && envelope.payload >= 0, "an envelope's numbers are in range")
    switch decoded {
    case .rejected(_, let error):
        let reply = Reply.error(id: nil, error).encoded()
        expect(reply.count <= Frame.maximumLength, "a rejection fits into a frame")
        expect((try? Reply(decoding: reply.dropFirst(Frame.headerLength))) != nil, "a rejection can be decoded")
    case .message(let message):
        guard let frame = try? message.encoded(),
            let (again, _) = try? ClientMessage.decode(frame.dropFirst(Frame.headerLength))
        else {
            return expect(false, "a decoded message can be encoded and decoded")
        }
        expect(again == .message(message), "a message round-trips")
    }
}

/// Messages that the fast path parses must be equal to those of the JSON reader, with any id.
private func checkRepeatable(_ text: ArraySlice<UInt8>) {
    let general = (try? ClientMessage.decode(text))?.0
    if let buffer = RepeatableText.releasedBuffer(text) {
        expect(general == .message(.release(buffers: [buffer])), "a release equals that of the JSON reader")
    }
    guard let short = RepeatableText(text), case .message(.get(var request))? = general, short.isPlain else { return }
    expect(request.id == short.id, "an id equals that of the JSON reader")
    let other = Array(#"{"type":"get","id":987"#.utf8) + short.rest
    request.id = 987
    expect(
        (try? ClientMessage.decode(other[...]))?.0 == .message(.get(request)), "nothing but the id depends on the id")
}

func fuzzWorkerMessages(_ bytes: [UInt8]) {
    func check<Message: WorkerMessage>(_: Message.Type) {
        if let message = try? Message(json: bytes[...]) { checkRoundTrip(message) }
        if let (message, _) = try? Message.read(bytes[...]) { checkRoundTrip(message) }
    }
    func checkRoundTrip<Message: WorkerMessage>(_ message: Message) {
        // Without the bytes after it, a message may still be longer than a frame.
        guard let frame = try? message.encoded() else { return }
        expect((try? Message.read(frame.dropFirst(Frame.headerLength)).message) == message, "a message round-trips")
    }
    check(DecodeOrder.self)
    check(DecodeReport.self)
    check(ForkOrder.self)
    check(ForkReport.self)
    check(FetchOrder.self)
    check(FetchReport.self)
    check(StoreOrder.self)
    check(StoreReport.self)
}

func fuzzReplies(_ bytes: [UInt8]) {
    guard let reply = try? Reply(decoding: bytes[...]) else { return }
    let frame = reply.encoded()
    // Numbers are written with three decimals, so only the encoding of the decoded reply is stable.
    let again = try? Reply(decoding: frame.dropFirst(Frame.headerLength))
    expect(again?.encoded() == frame, "a reply round-trips")
}

func fuzzURLs(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    if let url = try? SourceURL(text) {
        let again = try? SourceURL(url.text)
        expect(again == url, "the canonical form is canonical")
        expect(url.text.utf8.count <= SourceURL.maximumLength, "a URL is within its length limit")
        expect(url.text.hasPrefix(url.origin + "/"), "a URL begins with its origin")
        expect(!url.host.isEmpty, "a URL has a host")
        if SourceURL.isPlainlyCanonical(text) {
            var international = InternationalHosts()
            expect(
                (try? SourceURL.canonical(text, &international)) == text,
                "a plainly canonical URL equals its canonical form")
        }
    } else {
        expect(!SourceURL.isPlainlyCanonical(text), "a plainly canonical text is a URL")
    }
    if let address = IPAddress(text) {
        expect(IPAddress(address.description) == address, "an address round-trips")
        for inner in address.embeddedIPv4 {
            let isRefused = !AddressPolicy().permits(inner)
            expect(!isRefused || !AddressPolicy().permits(address), "an address is refused if its embedded address is")
        }
    }
    if let range = AddressRange(text) {
        expect(AddressRange(range.description) == range, "a range round-trips")
        expect(range.contains(range.base), "a range contains its first address")
        // An IPv4 address embedded in an IPv6 address needs a range of its own.
        let isPlain = range.base.embeddedIPv4.isEmpty
        expect(!isPlain || AddressPolicy(allowed: [range]).permits(range.base), "an allowed range is permitted")
    }
}
