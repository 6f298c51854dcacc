internal import DiskRecords
package import HTTPValues
package import IPCProtocol
package import JSONCoding

// The messages between the broker and a download worker: frames of the wire protocol over a socket pair.
//
//     broker → fetch     with `resume` + 1 descriptor (where the body goes; its first bytes are there already)
//     worker → redirected when it goes on at another origin
//     worker → responded with the header of a body that begins, once for each request that brings one
//     worker → needsFile unless the body is small and complete within 50 ms
//     broker → file      + 1 descriptor (where the body goes)
//     worker → progress  with the first byte, then at most 20 a second, when the received bytes are in the file
//     worker → finished | notModified | failed
//     broker → stop
//     worker → stopped   unless it had ended the transfer before
//
// A body that is complete before it has a file comes in the frame of `finished`. If it has begun in the same moment,
// `finished` also says what `responded` and the first `progress` would have said.
//
// Any number of transfers run concurrently.

/// The changes that a transfer made to a user's cookies, as lines of Netscape's format.
package struct CookieChanges: Equatable, Sendable, FieldList {
    /// The new and changed cookies.
    package var changed: [String]
    /// The lines of the removed cookies, as sent in the job.
    package var removed: [String]

    package init(changed: [String] = [], removed: [String] = []) {
        self.changed = changed
        self.removed = removed
    }

    package var isEmpty: Bool { changed.isEmpty && removed.isEmpty }

    package static var blank: CookieChanges { CookieChanges() }

    package mutating func list(_ fields: inout Fields) {
        fields.strings("cookies", orNone: &changed)
        fields.strings("removedCookies", orNone: &removed)
    }
}

/// The result of a successful transfer.
package struct FetchResult: Equatable, Sendable, FieldList {
    /// The body's length in bytes.
    package var bytes: Int
    package var response: ResponseRecord
    /// The numeric address that sent the body.
    package var remoteAddress: String
    package var cookies: CookieChanges
    package var times = FetchTimes()
    /// The beginning of the body; nil when it was reported before.
    package var beginning: FetchBeginning?

    /// The most bytes of a body that comes in the frame of its report.
    package static let mostBytesInFrame = 256 << 10

    package init(
        bytes: Int, response: ResponseRecord, remoteAddress: String, cookies: CookieChanges = CookieChanges()
    ) {
        self.bytes = bytes
        self.response = response
        self.remoteAddress = remoteAddress
        self.cookies = cookies
    }

    package static var blank: FetchResult { FetchResult(bytes: 0, response: .blank, remoteAddress: "") }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("bytes", &bytes, in: 0...Int.max)
        fields.object("response", &response)
        fields.string("remoteAddress", &remoteAddress)
        cookies.list(&fields)
        times.list(&fields)
        fields.object("beginning", &beginning)
    }
}

/// The header's information on a body that begins.
package struct FetchBeginning: Equatable, Sendable, FieldList {
    /// The validator for resuming the download after an interruption.
    package var validator: String?
    /// The body's total length in bytes.
    package var total: Int?
    /// Whether the requested origin answers many requests over one connection (HTTP/2); nil when another has answered.
    package var isMultiplexed: Bool?

    package init(validator: String? = nil, total: Int? = nil, isMultiplexed: Bool? = nil) {
        (self.validator, self.total, self.isMultiplexed) = (validator, total, isMultiplexed)
    }

    package static var blank: FetchBeginning { FetchBeginning() }

    package mutating func list(_ fields: inout Fields) {
        fields.string("validator", &validator, most: ResponseRecord.longestValue)
        fields.integer("total", &total, in: 0...Int.max)
        fields.boolean("multiplexed", &isMultiplexed)
    }
}

/// The origin's confirmation (304) that the cached response is still valid.
package struct FetchConfirmation: Equatable, Sendable, FieldList {
    /// The response, with status 304.
    package var response: ResponseRecord
    /// The numeric address that sent it.
    package var remoteAddress: String
    package var cookies: CookieChanges
    package var times = FetchTimes()

    package init(response: ResponseRecord, remoteAddress: String, cookies: CookieChanges = CookieChanges()) {
        self.response = response
        self.remoteAddress = remoteAddress
        self.cookies = cookies
    }

    package static var blank: FetchConfirmation { FetchConfirmation(response: .blank, remoteAddress: "") }

    package mutating func list(_ fields: inout Fields) {
        fields.object("response", &response)
        fields.string("remoteAddress", &remoteAddress)
        cookies.list(&fields)
        times.list(&fields)
    }
}

/// A failed transfer.
package struct FetchFailure: Equatable, Sendable, FieldList {
    package var error: WireError
    /// The number of body bytes received from which the download can be resumed; 0 when it cannot.
    package var received: Int
    /// The unsuccessful response, if one arrived.
    package var response: ResponseRecord?
    package var cookies: CookieChanges

    package init(
        _ error: WireError, received: Int = 0, response: ResponseRecord? = nil,
        cookies: CookieChanges = CookieChanges()
    ) {
        self.error = error
        self.received = received
        self.response = response
        self.cookies = cookies
    }

    package static var blank: FetchFailure { FetchFailure(.blank) }

    package mutating func list(_ fields: inout Fields) {
        error.list(&fields)
        fields.integer("received", &received, in: 0...Int.max, .optional)
        fields.object("response", &response)
        cookies.list(&fields)
    }
}

/// A message from the broker to a download worker.
package enum FetchOrder: Equatable, Sendable, WorkerMessage {
    /// Begins a transfer; with a resumption, carries the descriptor of the body.
    case fetch(FetchJob)
    /// Carries the descriptor for the body of a transfer that needs a file.
    case file(job: Int)
    /// Stops a transfer that has no waiters left.
    case stop(job: Int)

    package var descriptorCount: Int {
        switch self {
        case .fetch(let job): job.resumption == nil ? 0 : 1
        case .file: 1
        case .stop: 0
        }
    }

    package var type: String {
        switch self {
        case .fetch: "fetch"
        case .file: "file"
        case .stop: "stop"
        }
    }

    package static let blanks: [FetchOrder] = [.fetch(.blank), .file(job: 0), .stop(job: 0)]

    package mutating func list(_ fields: inout Fields) {
        switch self {
        case .fetch(let job): self = .fetch(fields.members(of: job))
        case .file(let job): self = .file(job: fields.job(job))
        case .stop(let job): self = .stop(job: fields.job(job))
        }
    }
}

/// A message from a download worker.
package enum FetchReport: Equatable, Sendable, WorkerMessage {
    /// The worker accepts transfers, with its sandbox; nil when the message has none.
    case ready(SandboxReport?, version: String? = ProductVersion.current)
    /// The transfer goes on at another origin, to which the one before has redirected. It has the URL of that origin's
    /// root.
    case redirected(job: Int, to: String)
    /// A body begins, with its response's header.
    case responded(job: Int, ResponseRecord, FetchBeginning)
    /// The body is not small, or does not come at once; a file is needed for it.
    case needsFile(job: Int)
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

    /// The failure of the report's job, to be sent in its place when no frame can hold it; nil for a report that does
    /// not end its job, which is then left out.
    package var failureInPlace: FetchReport? {
        switch self {
        case .finished(let job, _), .notModified(let job, _), .failed(let job, _):
            .failed(job: job, FetchFailure(WireError(.internal, "The report of the transfer is too long.")))
        case .ready, .redirected, .responded, .needsFile, .progress, .stopped: nil
        }
    }

    package var descriptorCount: Int { 0 }
    package var mayHaveBytes: Bool { if case .finished = self { true } else { false } }

    package var type: String {
        switch self {
        case .ready: "ready"
        case .redirected: "redirected"
        case .responded: "responded"
        case .needsFile: "needsFile"
        case .progress: "progress"
        case .finished: "finished"
        case .notModified: "notModified"
        case .failed: "failed"
        case .stopped: "stopped"
        }
    }

    package static let blanks: [FetchReport] = [
        .ready(nil, version: nil), .redirected(job: 0, to: ""),
        .responded(job: 0, .blank, .blank), .needsFile(job: 0),
        .progress(job: 0, received: 0, expected: nil), .finished(job: 0, .blank), .notModified(job: 0, .blank),
        .failed(job: 0, .blank), .stopped(job: 0, received: 0),
    ]

    package mutating func list(_ fields: inout Fields) {
        switch self {
        case .ready(let sandbox, let version):
            self = .ready(fields.object("sandbox", sandbox), version: fields.string("version", version))
        case .redirected(let job, let root):
            self = .redirected(job: fields.job(job), to: fields.string("to", root))
        case .responded(let job, let response, let beginning):
            self = .responded(
                job: fields.job(job), fields.object("response", response), fields.members(of: beginning))
        case .needsFile(let job): self = .needsFile(job: fields.job(job))
        case .progress(let job, let received, let expected):
            self = .progress(
                job: fields.job(job), received: fields.integer("received", received, in: 0...Int.max),
                expected: fields.integer("expected", expected, in: 0...Int.max))
        case .finished(let job, let result):
            self = .finished(job: fields.job(job), fields.members(of: result))
        case .notModified(let job, let confirmation):
            self = .notModified(job: fields.job(job), fields.members(of: confirmation))
        case .failed(let job, let failure):
            self = .failed(job: fields.job(job), fields.members(of: failure))
        case .stopped(let job, var received):
            let job = fields.job(job)
            fields.integer("received", &received, in: 0...Int.max, .optional)
            self = .stopped(job: job, received: received)
        }
    }
}
