internal import CTestSupport
internal import Foundation
internal import Glibc
package import IPCProtocol
package import LinuxSystem
internal import SharedCache

/// A client that can also violate the protocol, and that returns frames unchanged. Every wait has a deadline.
package final class RawClient {
    /// A received frame with its descriptors and its payload.
    package struct Incoming {
        package let text: String
        package let reply: Reply
        /// The descriptors that the frame announced.
        package let descriptors: [FileDescriptor]
        package let payload: [UInt8]

        package var fields: [String: Any] {
            (try? JSONSerialization.jsonObject(with: Data(text.utf8))) as? [String: Any] ?? [:]
        }

        /// The image that it describes.
        ///
        /// - Throws: `TestFailure` for anything else.
        package func image() throws -> ImageReply {
            guard case .image(_, let image) = reply else { throw TestFailure("no image: \(text)") }
            return image
        }

        /// The error that it reports; nil for anything else.
        package var error: WireError? {
            if case .error(_, let error) = reply { return error }
            return nil
        }
    }

    /// The broker has closed the connection.
    package struct Closed: Error {}

    /// An object that lives as long as the client, such as its broker.
    package var owner: AnyObject?

    private(set) package var socket: FileDescriptor?
    private var decoder = FrameDecoder()
    private var descriptors: [FileDescriptor] = []
    private var stash: [Incoming] = []
    private var buffers: [Int: SealedBuffer] = [:]
    /// The segments that it has received.
    private(set) package var segments: [Int: FileDescriptor] = [:]
    /// The number of buffers that it has received and keeps.
    package var receivedBuffers: Int { buffers.count }
    private var lastID = 0

    package init(_ path: String, owner: AnyObject? = nil) throws {
        let socket = try UnixSocket.connect(to: path)
        try socket.setNonBlocking()
        (self.socket, self.owner) = (socket, owner)
    }

    /// Connects to the broker at `path` as another user, which requires root: the kernel reports the credentials at the
    /// time of `connect`.
    package convenience init(_ path: String, connectingAs uid: UInt32) throws {
        guard ctest_set_effective_user(uid) == 0 else { throw SystemError("setresuid") }
        defer { if ctest_set_effective_user(0) != 0 { fatalError("The thread stays user \(uid).") } }
        try self.init(path)
    }

    /// Closes the connection, even if this object lives on.
    package func close() { socket = nil }

    package func shutDownSending() {
        if let socket { UnixSocket.shutDownSending(socket) }
    }

    // MARK: Sending

    /// Sends bytes unchanged, `descriptors` with the first.
    ///
    /// - Throws: `SystemError`; `TestFailure` when the socket does not accept them in time.
    package func send(_ bytes: [UInt8], descriptors: [FileDescriptor] = []) throws {
        let deadline = Deadline(seconds: patience)
        var sent = try sendPart(of: bytes, descriptors)
        while sent < bytes.count {
            guard let socket, waitUntilReady(socket.raw, writing: true, deadline) else {
                throw TestFailure("the broker takes no more bytes")
            }
            sent = try sendPart(of: bytes, from: sent, descriptors)
        }
    }

    /// Sends as much of `bytes` as the socket accepts at once.
    package func sendWhatIsTaken(_ bytes: [UInt8]) throws { _ = try sendPart(of: bytes, []) }

    /// Sends as much of `bytes` from `start` on as the socket accepts at once, `descriptors` with the first of all.
    /// Returns the place up to which they are sent.
    private func sendPart(of bytes: [UInt8], from start: Int = 0, _ descriptors: [FileDescriptor]) throws -> Int {
        guard let socket else { throw Closed() }
        var sent = start
        while sent < bytes.count {
            let count = unsafe try bytes.withUnsafeBytes {
                unsafe try UnixSocket.send(
                    UnsafeRawBufferPointer(rebasing: $0[sent...]), descriptors: sent == 0 ? descriptors : [],
                    on: socket)
            }
            guard let count else { break }
            sent += count
        }
        return sent
    }

    /// A frame around `text`, valid or not.
    package static func frame(_ text: String) -> [UInt8] {
        let bytes = Array(text.utf8)
        return big(bytes.count, 4) + bytes
    }

    package func send(_ text: String) throws { try send(Self.frame(text)) }

    /// Requests the image at `url` with further members, written as JSON. Returns the request's id.
    @discardableResult
    package func get(_ url: String, _ members: String = "") throws -> Int {
        let id = newID()
        try send(Self.getText(id, url, members))
        return id
    }

    /// Stores an image whose bytes are the payload, and waits for the reply.
    package func store(_ url: String, _ bytes: [UInt8], contentType: String = "image/png") throws -> Incoming {
        let id = newID()
        try send(Self.frame(Self.storeText(id, url, #""payload":\#(bytes.count)"#, contentType: contentType)) + bytes)
        return try answer(to: id)
    }

    /// Stores an image by its descriptor, and waits for the reply.
    package func store(_ url: String, _ file: FileDescriptor, contentType: String = "image/png") throws -> Incoming {
        let id = newID()
        try send(Self.frame(Self.storeText(id, url, #""fds":1"#, contentType: contentType)), descriptors: [file])
        return try answer(to: id)
    }

    /// The text of a `store`; `members` say how the bytes are delivered.
    package static func storeText(
        _ id: Int, _ url: String, _ members: String, contentType: String = "image/png"
    ) -> String {
        #"{"type":"store","id":\#(id),"url":"\#(url)","contentType":"\#(contentType)",\#(members)}"#
    }

    /// Requests an image and returns all frames of the request, the last one included.
    package func frames(_ url: String, _ members: String = "") throws -> [Incoming] {
        try frames(of: get(url, members))
    }

    /// Waits for all frames of a request, the last one included.
    package func frames(of id: Int) throws -> [Incoming] {
        var frames = [try answer(to: id, orProgress: true)]
        while !frames.last!.reply.isTerminal { frames.append(try answer(to: id, orProgress: true)) }
        return frames
    }

    /// Waits for events until one satisfies `isLast`, and returns them all. Other frames are kept for later.
    package func events(until isLast: (BrokerEvent) -> Bool) throws -> [BrokerEvent] {
        let deadline = Deadline(seconds: patience)
        var events: [BrokerEvent] = []
        var others: [Incoming] = []
        defer { stash = others + stash }
        while true {
            let incoming = stash.isEmpty ? try receive(deadline) : stash.removeFirst()
            guard case .event(_, let event) = incoming.reply else {
                others.append(incoming)
                continue
            }
            events.append(event)
            if isLast(event) { return events }
        }
    }

    package static func getText(_ id: Int, _ url: String, _ members: String = "") -> String {
        #"{"type":"get","id":\#(id),"url":"\#(url)"\#(members.isEmpty ? "" : "," + members)}"#
    }

    package func newID() -> Int {
        lastID += 1
        return lastID
    }

    // MARK: Receiving

    /// Waits for the next frame.
    ///
    /// - Throws: `Closed` at the end; `TestFailure` when none arrives in time.
    package func next(within seconds: Double = patience) throws -> Incoming {
        if !stash.isEmpty { return stash.removeFirst() }
        return try receive(Deadline(seconds: seconds))
    }

    /// Takes the next frame that has arrived; nil without one.
    package func nextIfThere() throws -> Incoming? {
        if !stash.isEmpty { return stash.removeFirst() }
        while true {
            if let text = try decoder.next() { return try incoming(Array(text), Deadline(seconds: patience)) }
            guard let socket else { throw Closed() }
            guard waitUntilReady(socket.raw, Deadline(seconds: 0)) else { return nil }
            try fill(Deadline(seconds: patience))
        }
    }

    /// Waits for the reply to request `id`, or with `progress` for any frame of it. Other frames are kept for later.
    package func answer(to id: Int, orProgress: Bool = false, within seconds: Double = patience) throws -> Incoming {
        func isMeant(_ incoming: Incoming) -> Bool {
            incoming.reply.id == id && (orProgress || incoming.reply.isTerminal)
        }
        if let index = stash.firstIndex(where: isMeant) { return stash.remove(at: index) }
        let deadline = Deadline(seconds: seconds)
        while true {
            let incoming = try receive(deadline)
            if isMeant(incoming) { return incoming }
            stash.append(incoming)
        }
    }

    package func load(_ url: String, _ members: String = "", within seconds: Double = patience) throws -> Incoming {
        let incoming = try answer(to: try get(url, members), within: seconds)
        if let error = incoming.error { throw error }
        return incoming
    }

    /// Requests an image that must fail, and returns the error.
    package func failure(_ url: String, _ members: String = "", within seconds: Double = patience) throws -> WireError {
        let incoming = try answer(to: try get(url, members), within: seconds)
        guard let error = incoming.error else { throw TestFailure("no error: \(incoming.text)") }
        return error
    }

    /// Sends a message of `type` with further members, written as JSON, and with a file if it is about one. Returns its
    /// id.
    @discardableResult
    package func request(_ type: String, _ members: String = "", of file: FileDescriptor? = nil) throws -> Int {
        let id = newID()
        let members = (file == nil ? "" : #","fds":1"#) + (members.isEmpty ? "" : "," + members)
        let frame = Self.frame(#"{"type":"\#(type)","id":\#(id)\#(members)}"#)
        try send(frame, descriptors: file.map { [$0] } ?? [])
        return id
    }

    /// Sends a message like `request`, and waits for the reply.
    package func ask(_ type: String, _ members: String = "", of file: FileDescriptor? = nil) throws -> Incoming {
        try answer(to: request(type, members, of: file))
    }

    package func stats() throws -> StatsReport {
        let incoming = try ask("stats")
        guard case .stats(_, let report) = incoming.reply else { throw TestFailure("no stats: \(incoming.text)") }
        return report
    }

    package func hello() throws -> HelloReply {
        let incoming = try ask("hello", #""protocol":1,"client":"test/1""#)
        guard case .hello(_, let hello) = incoming.reply else { throw TestFailure("no hello: \(incoming.text)") }
        return hello
    }

    /// Maps segments from now on.
    package func mapSegments() throws {
        guard try ask("hello", #""protocol":1,"segments":true"#).error == nil else { throw TestFailure("no hello") }
    }

    package func release(_ buffers: [Int]) throws {
        try send(#"{"type":"release","buffers":\#(buffers)}"#)
    }

    /// Waits until the broker closes the connection, and returns the frames that it sent before.
    ///
    /// - Throws: `TestFailure` when it does not.
    package func receiveUntilEnd(within seconds: Double = patience) throws -> [Incoming] {
        let deadline = Deadline(seconds: seconds)
        while true {
            do { stash.append(try receive(deadline)) } catch is Closed {
                defer { stash = [] }
                return stash
            }
        }
    }

    private func receive(_ deadline: Deadline) throws -> Incoming {
        while true {
            if let text = try decoder.next() { return try incoming(Array(text), deadline) }
            try fill(deadline)
        }
    }

    private func incoming(_ text: [UInt8], _ deadline: Deadline) throws -> Incoming {
        let reply = try Reply(decoding: text[...])
        var (count, length) = (0, 0)
        if case .image(_, let image) = reply { (count, length) = (image.descriptors, image.payload) }
        // The descriptor is that of the validity page, not of an image.
        if case .hello(_, let hello) = reply { count = hello.slots == nil ? 0 : 1 }
        guard descriptors.count >= count else { throw TestFailure("a descriptor is missing") }
        let taken = Array(descriptors.prefix(count))
        descriptors.removeFirst(count)
        if case .image(_, let image) = reply, let segment = image.segment {
            if let descriptor = taken.first { segments[segment] = descriptor }
        } else if case .image(_, let image) = reply, let number = image.buffer, let descriptor = taken.first {
            buffers[number] = try SealedBuffer(verifying: descriptor, size: image.offset + image.bufferBytes)
        }
        var payload: [UInt8] = []
        payload.reserveCapacity(length)
        while true {
            payload += decoder.takePayload(upTo: length - payload.count)
            if payload.count == length { break }
            try fill(deadline)
        }
        return Incoming(
            text: String(decoding: text, as: UTF8.self), reply: reply, descriptors: taken, payload: payload)
    }

    private func fill(_ deadline: Deadline) throws {
        guard let socket else { throw Closed() }
        guard waitUntilReady(socket.raw, deadline) else { throw TestFailure("no answer in time") }
        let received = unsafe try withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 16) { buffer in
            let received = unsafe try UnixSocket.receive(into: buffer, from: socket)
            if case .bytes(let count, _, _) = received {
                unsafe decoder.append(UnsafeRawBufferPointer(buffer).prefix(count))
            }
            return received
        }
        switch received {
        case .bytes(_, let came, let lost):
            if lost { throw TestFailure("descriptors were lost") }
            descriptors += came
        case .wouldBlock: break
        case .end: throw Closed()
        }
    }

    // MARK: Images

    /// The bytes of an image, from its buffer or inline. Buffers are kept as long as the client, because their
    /// descriptors are sent only once.
    package func bytes(of incoming: Incoming) throws -> [UInt8] {
        let image = try incoming.image()
        if image.payload > 0 { return incoming.payload }
        if let segment = image.segment {
            guard let file = segments[segment] else { throw TestFailure("segment \(segment) was never sent") }
            var bytes = [UInt8](repeating: 0, count: image.bufferBytes)
            let count = unsafe try bytes.withUnsafeMutableBytes { unsafe try file.read(into: $0, at: image.offset) }
            if count != bytes.count { throw TestFailure("segment \(segment) is too short") }
            return bytes
        }
        guard let number = image.buffer else { throw TestFailure("no buffer: \(incoming.text)") }
        guard let buffer = buffers[number] else { throw TestFailure("buffer \(number) was never sent") }
        return unsafe try Mapping(buffer).withBytes {
            unsafe Array($0[image.offset..<image.offset + image.bufferBytes])
        }
    }

    package func picture(_ incoming: Incoming) throws -> TestPicture {
        let image = try incoming.image()
        let bytes = try bytes(of: incoming)
        guard let pixels = image.pixels, pixels.stride == image.width * 4, bytes.count == image.height * pixels.stride
        else { throw TestFailure("sizes do not fit together: \(incoming.text)") }
        return TestPicture(width: image.width, height: image.height, bytes: bytes)
    }
}
