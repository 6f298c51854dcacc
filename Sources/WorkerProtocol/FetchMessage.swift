package import HTTPValues
package import IPCProtocol
package import JSONCoding

// What the broker and a download worker say to each other: frames of the wire protocol over a socket pair.
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
// Any number of transfers run at once.

/// What a transfer did to a user's cookies, as lines of Netscape's format.
package struct CookieChanges: Equatable, Sendable {
    /// Cookies that are new, or other than before.
    package var changed: [String]
    /// Lines as they were given, of cookies that are gone.
    package var removed: [String]

    /// Changes of a jar.
    package init(changed: [String] = [], removed: [String] = []) {
        self.changed = changed
        self.removed = removed
    }

    /// Whether nothing has changed.
    package var isEmpty: Bool { changed.isEmpty && removed.isEmpty }
}

/// What the origin answered with success.
package struct FetchResult: Equatable, Sendable {
    /// The body's length in bytes.
    package var bytes: Int
    /// The body's SHA-256, 64 hexadecimal digits.
    package var digest: String
    /// The response; nil for bytes that were given.
    package var response: ResponseRecord?
    /// The numeric address that the body came from; empty for bytes that were given.
    package var remoteAddress: String
    /// What became of the cookies.
    package var cookies: CookieChanges

    /// A result with what is known of it.
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

/// The origin's word that what is cached still holds (304).
package struct FetchConfirmation: Equatable, Sendable {
    /// The response, its status being 304.
    package var response: ResponseRecord
    /// The numeric address that it came from.
    package var remoteAddress: String
    /// What became of the cookies.
    package var cookies: CookieChanges

    /// A confirmation with what is known of it.
    package init(response: ResponseRecord, remoteAddress: String, cookies: CookieChanges = CookieChanges()) {
        self.response = response
        self.remoteAddress = remoteAddress
        self.cookies = cookies
    }
}

/// How a transfer has failed.
package struct FetchFailure: Equatable, Sendable {
    /// Why.
    package var error: WireError
    /// How many bytes of the body are there and can be continued from; 0 when none can.
    package var received: Int
    /// The response that was no success, where there was one.
    package var response: ResponseRecord?
    /// What became of the cookies.
    package var cookies: CookieChanges

    /// A failure with what is known of it.
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

/// What the broker tells a download worker.
package enum FetchOrder: Equatable, Sendable {
    /// Begin a transfer; comes with the descriptor for the body.
    case fetch(FetchJob)
    /// End a transfer: nobody wants it any more.
    case stop(job: Int)
    /// Say what the first `bytes` bytes of the descriptor's are: their digest.
    case identify(job: Int, bytes: Int)
}

/// What a download worker reports.
package enum FetchReport: Equatable, Sendable {
    /// Transfers can come, with what confines the worker; nil when it did not say.
    case ready(SandboxReport?)
    /// A body begins: its response's header, and the validator by which it can be continued if it is cut short, with
    /// the whole length.
    case responded(job: Int, ResponseRecord, validator: String?, total: Int?)
    /// Bytes of the body that have arrived, and how many there will be, where that is known.
    case progress(job: Int, received: Int, expected: Int?)
    /// The body is complete.
    case finished(job: Int, FetchResult)
    /// What is cached still holds.
    case notModified(job: Int, FetchConfirmation)
    /// The transfer has ended without a body.
    case failed(job: Int, FetchFailure)
    /// The transfer was stopped: nothing is written any more. So many bytes are there.
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

/// The members of all these messages but `fetch`.
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
