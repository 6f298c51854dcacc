package import HTTPValues
package import IPCProtocol
package import JSONCoding

// The messages between the broker and a download worker: frames of the wire protocol over a socket pair.
//
//     broker → fetch     + 1 descriptor (where the body goes; with `resume`, its first bytes are there already)
//     worker → responded with the header of a body that begins, once for each request that brings one
//     worker → progress  with the first byte, then at most 20 a second
//     worker → finished | notModified | failed
//     broker → stop
//     worker → stopped   unless it had ended the transfer before
//     broker → identify  + 1 descriptor (sealed bytes)
//     worker → finished | failed
//
// Any number of transfers run concurrently.

/// The changes that a transfer made to a user's cookies, as lines of Netscape's format.
package struct CookieChanges: Equatable, Sendable {
    /// The new and changed cookies.
    package var changed: [String]
    /// The lines of the removed cookies, as sent in the job.
    package var removed: [String]

    /// Creates the changes of a cookie jar.
    package init(changed: [String] = [], removed: [String] = []) {
        self.changed = changed
        self.removed = removed
    }

    /// Whether nothing has changed.
    package var isEmpty: Bool { changed.isEmpty && removed.isEmpty }
}

/// The result of a successful transfer.
package struct FetchResult: Equatable, Sendable {
    /// The body's length in bytes.
    package var bytes: Int
    /// The body's SHA-256, 64 hexadecimal digits.
    package var digest: String
    /// The response; nil for the bytes of an `identify` order.
    package var response: ResponseRecord?
    /// The numeric address that sent the body; empty for the bytes of an `identify` order.
    package var remoteAddress: String
    /// The changes to the cookies.
    package var cookies: CookieChanges

    /// Creates a result.
    package init(
        bytes: Int, digest: String, response: ResponseRecord? = nil, remoteAddress: String = "",
        cookies: CookieChanges = CookieChanges()
    ) {
        self.bytes = bytes
        self.digest = digest
        self.response = response
        self.remoteAddress = remoteAddress
        self.cookies = cookies
    }
}

/// The origin's confirmation (304) that the cached response is still valid.
package struct FetchConfirmation: Equatable, Sendable {
    /// The response, with status 304.
    package var response: ResponseRecord
    /// The numeric address that sent it.
    package var remoteAddress: String
    /// The changes to the cookies.
    package var cookies: CookieChanges

    /// Creates a confirmation.
    package init(response: ResponseRecord, remoteAddress: String, cookies: CookieChanges = CookieChanges()) {
        self.response = response
        self.remoteAddress = remoteAddress
        self.cookies = cookies
    }
}

/// A failed transfer.
package struct FetchFailure: Equatable, Sendable {
    /// The cause.
    package var error: WireError
    /// The number of body bytes received from which the download can be resumed; 0 when it cannot.
    package var received: Int
    /// The unsuccessful response, if one arrived.
    package var response: ResponseRecord?
    /// The changes to the cookies.
    package var cookies: CookieChanges

    /// Creates a failure.
    package init(
        _ error: WireError, received: Int = 0, response: ResponseRecord? = nil,
        cookies: CookieChanges = CookieChanges()
    ) {
        self.error = error
        self.received = received
        self.response = response
        self.cookies = cookies
    }
}

/// A message from the broker to a download worker.
package enum FetchOrder: Equatable, Sendable {
    /// Begins a transfer; carries the descriptor for the body.
    case fetch(FetchJob)
    /// Stops a transfer that has no waiters left.
    case stop(job: Int)
    /// Requests the digest of the first `bytes` bytes of the descriptor it carries.
    case identify(job: Int, bytes: Int)
}

/// A message from a download worker.
package enum FetchReport: Equatable, Sendable {
    /// The worker accepts transfers, with its sandbox; nil when the message has none.
    case ready(SandboxReport?)
    /// A body begins: its response's header, the validator for resuming the download after an interruption, and the
    /// body's total length in bytes.
    case responded(job: Int, ResponseRecord, validator: String?, total: Int?)
    /// The number of body bytes received, and the expected total if known.
    case progress(job: Int, received: Int, expected: Int?)
    /// The body is complete.
    case finished(job: Int, FetchResult)
    /// The cached response is still valid.
    case notModified(job: Int, FetchConfirmation)
    /// The transfer has failed; there is no complete body.
    case failed(job: Int, FetchFailure)
    /// The transfer was stopped after `received` bytes; no more bytes will be written.
    case stopped(job: Int, received: Int)
}

extension FetchOrder: WorkerMessage {
    package var descriptorCount: Int {
        if case .stop = self { 0 } else { 1 }
    }

    package var type: String {
        switch self {
        case .fetch: "fetch"
        case .stop: "stop"
        case .identify: "identify"
        }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .fetch(let job): job.writeMembers(to: &writer)
        case .stop(let job): writer.member("job", job)
        case .identify(let job, let bytes):
            writer.member("job", job)
            writer.member("bytes", bytes)
        }
    }

    package init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        switch type {
        case "fetch":
            guard let job = try FetchJob(from: &reader) else { return nil }
            self = .fetch(job)
        case "stop":
            guard let job = try FetchMembers(from: &reader).job else { return nil }
            self = .stop(job: job)
        case "identify":
            let members = try FetchMembers(from: &reader)
            guard let job = members.job, let bytes = members.bytes else { return nil }
            self = .identify(job: job, bytes: bytes)
        default: return nil
        }
    }
}

extension CookieChanges {
    fileprivate func write(to writer: inout JSONWriter) {
        if !changed.isEmpty { writer.array("cookies", of: changed) }
        if !removed.isEmpty { writer.array("removedCookies", of: removed) }
    }
}

extension FetchReport: WorkerMessage {
    package var descriptorCount: Int { 0 }

    package var type: String {
        switch self {
        case .ready: "ready"
        case .responded: "responded"
        case .progress: "progress"
        case .finished: "finished"
        case .notModified: "notModified"
        case .failed: "failed"
        case .stopped: "stopped"
        }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .ready(let sandbox): if let sandbox { writer.object("sandbox", sandbox.writeMembers) }
        case .responded(let job, let response, let validator, let total):
            writer.member("job", job)
            writer.object("response", response.writeMembers)
            writer.member("validator", validator)
            writer.member("total", total)
        case .progress(let job, let received, let expected):
            writer.member("job", job)
            writer.member("received", received)
            writer.member("expected", expected)
        case .finished(let job, let result):
            writer.member("job", job)
            writer.member("bytes", result.bytes)
            writer.member("digest", result.digest)
            if let response = result.response { writer.object("response", response.writeMembers) }
            writer.member("remoteAddress", result.remoteAddress)
            result.cookies.write(to: &writer)
        case .notModified(let job, let confirmation):
            writer.member("job", job)
            writer.object("response", confirmation.response.writeMembers)
            writer.member("remoteAddress", confirmation.remoteAddress)
            confirmation.cookies.write(to: &writer)
        case .failed(let job, let failure):
            writer.member("job", job)
            failure.error.write(to: &writer)
            writer.member("received", failure.received)
            if let response = failure.response { writer.object("response", response.writeMembers) }
            failure.cookies.write(to: &writer)
        case .stopped(let job, let received):
            writer.member("job", job)
            writer.member("received", received)
        }
    }

    package init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        if type == "ready" {
            self = .ready(try SandboxReport.read(fromReady: &reader).0)
            return
        }
        let text = reader
        let members = try FetchMembers(from: &reader)
        guard let job = members.job else { return nil }
        switch type {
        case "responded":
            guard let response = members.response else { return nil }
            self = .responded(job: job, response, validator: members.validator, total: members.total)
        case "progress":
            guard let received = members.received else { return nil }
            self = .progress(job: job, received: received, expected: members.expected)
        case "finished":
            guard let bytes = members.bytes, let digest = members.digest, digest.utf8.count == 64 else { return nil }
            self = .finished(
                job: job,
                FetchResult(
                    bytes: bytes, digest: digest, response: members.response,
                    remoteAddress: members.remoteAddress ?? "", cookies: members.cookies))
        case "notModified":
            guard let response = members.response, let address = members.remoteAddress else { return nil }
            self = .notModified(
                job: job,
                FetchConfirmation(response: response, remoteAddress: address, cookies: members.cookies))
        case "failed":
            var again = text
            let error = try WireError(from: &again)
            if reader.problem == nil { reader = again }
            self = .failed(
                job: job,
                FetchFailure(
                    error, received: members.received ?? 0, response: members.response,
                    cookies: members.cookies))
        case "stopped": self = .stopped(job: job, received: members.received ?? 0)
        default: return nil
        }
    }
}

/// The members of all these messages except `fetch`.
private struct FetchMembers {
    var job: Int?
    var received: Int?
    var expected: Int?
    var bytes: Int?
    var total: Int?
    var digest: String?
    var validator: String?
    var remoteAddress: String?
    var response: ResponseRecord?
    var cookies = CookieChanges()

    init(from reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "job": job = try reader.integer(name, in: 0...Int.max)
            case "received": received = try reader.integer(name, in: 0...Int.max)
            case "expected": expected = try reader.integer(name, in: 0...Int.max)
            case "bytes": bytes = try reader.integer(name, in: 0...Int.max)
            case "total": total = try reader.integer(name, in: 0...Int.max)
            case "digest": digest = try reader.string(name)
            case "validator": validator = try reader.string(name)
            case "remoteAddress": remoteAddress = try reader.string(name)
            case "response": response = try ResponseRecord(from: &reader, field: name)
            case "cookies": cookies.changed = try reader.strings(name)
            case "removedCookies": cookies.removed = try reader.strings(name)
            default: try reader.skip()
            }
        }
    }
}
