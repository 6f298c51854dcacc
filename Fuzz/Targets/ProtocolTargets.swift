import WorkerProtocol

@testable import HTTPValues
@testable import IPCProtocol

/// A stream of frames and payloads must be cut alike however it arrives. The first byte is how many lengths of pieces
/// follow; of each frame, the first byte is how much payload is behind it, the second whether that is taken or skipped.
func fuzzFrames(_ bytes: [UInt8]) {
    var input = FuzzInput(bytes)
    let pieces = (0..<input.byte() % 16).map { _ in input.byte() * 7 }
    let stream = Array(input.rest)
    let whole = FrameStream(stream, pieces: [])
    expect(whole == FrameStream(stream, pieces: pieces), "frames do not depend on how they arrive")
    expect(whole == FrameStream(stream, pieces: [Int](repeating: 1, count: stream.count)), "nor byte by byte")
}

/// What a decoder makes of a stream.
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
                    expect(taken.count <= wanted, "no more payload than asked for")
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

/// JSON in two spellings must mean the same: as it came, and written anew with other escapes and spaces. The envelope
/// must accept just what the reader accepts.
func fuzzJSON(_ bytes: [UInt8]) {
    guard let value = try? JSONTree(reading: bytes[...]) else {
        expect((try? Envelope(bytes[...])) == nil, "the envelope takes only JSON")
        return
    }
    expect((try? Envelope(bytes[...])) != nil, "the envelope takes all JSON")
    let other = value.spelled
    let again = try? JSONTree(reading: other[...])
    expect(again == value, "JSON in two spellings is the same")
}

func fuzzClientMessages(_ bytes: [UInt8]) {
    checkRepeatable(bytes[...])
    guard let (decoded, envelope) = try? ClientMessage.decode(bytes[...]) else { return }
    expect((0...253).contains(envelope.descriptors) && envelope.payload >= 0, "an envelope's numbers are in range")
    switch decoded {
    case .rejected(_, let error):
        let reply = Reply.error(id: nil, error).encoded()
        expect(reply.count <= Frame.maximumLength, "a rejection fits into a frame")
        expect((try? Reply(decoding: reply.dropFirst(Frame.headerLength))) != nil, "a rejection can be read")
    case .message(let message):
        guard let (again, _) = try? ClientMessage.decode(message.encoded().dropFirst(Frame.headerLength)) else {
            return expect(false, "a message that was read can be written and read")
        }
        expect(again == .message(message), "a message survives writing and reading")
    }
}

/// What is taken without being read as JSON must mean the same to the general reader, whatever its id.
private func checkRepeatable(_ text: ArraySlice<UInt8>) {
    let general = (try? ClientMessage.decode(text))?.0
    if let buffer = RepeatableText.releasedBuffer(text) {
        expect(general == .message(.release(buffers: [buffer])), "a release is what the general reader takes it for")
    }
    guard let short = RepeatableText(text), case .message(.get(var request))? = general, short.isPlain else { return }
    expect(request.id == short.id, "an id is what the general reader takes it for")
    let other = Array(#"{"type":"get","id":987"#.utf8) + short.rest
    request.id = 987
    expect(
        (try? ClientMessage.decode(other[...]))?.0 == .message(.get(request)), "nothing but the id depends on the id")
}

func fuzzWorkerMessages(_ bytes: [UInt8]) {
    func check<Message: WorkerMessage>(_: Message.Type) {
        guard let message = try? Message(decoding: bytes[...]) else { return }
        let again = try? Message(decoding: message.encoded().dropFirst(Frame.headerLength))
        expect(again == message, "a worker's message survives writing and reading")
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
    // Numbers are written to three places, so that only the second writing is like the first.
    let again = try? Reply(decoding: frame.dropFirst(Frame.headerLength))
    expect(again?.encoded() == frame, "a reply survives writing and reading")
}

func fuzzURLs(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    if let url = try? SourceURL(text) {
        let again = try? SourceURL(url.text)
        expect(again == url, "the canonical spelling is canonical")
        expect(url.text.utf8.count <= SourceURL.maximumLength, "a URL has a longest length")
        expect(url.text.hasPrefix(url.origin + "/"), "a URL begins with its origin")
        expect(!url.host.isEmpty, "a URL has a host")
        if SourceURL.isPlainlyCanonical(text) {
            expect((try? SourceURL.canonical(text)) == text, "what is plainly canonical is so")
        }
    } else {
        expect(!SourceURL.isPlainlyCanonical(text), "what is plainly canonical is a URL")
    }
    if let address = IPAddress(text) {
        expect(IPAddress(address.description) == address, "an address can be written and read")
        for inner in address.embeddedIPv4 {
            let isRefused = !AddressPolicy().permits(inner)
            expect(!isRefused || !AddressPolicy().permits(address), "an address is judged by what it embeds")
        }
    }
    if let range = AddressRange(text) {
        expect(AddressRange(range.description) == range, "a range can be written and read")
        expect(range.contains(range.base), "a range contains its first address")
        // An address of IPv4 inside of one of IPv6 needs a range of its own.
        let isPlain = range.base.embeddedIPv4.isEmpty
        expect(!isPlain || AddressPolicy(allowed: [range]).permits(range.base), "what is allowed is permitted")
    }
}
