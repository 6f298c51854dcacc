package import JSONCoding

// The parts of the statistics that are more than a number: distributions, and tables of limited length.

extension StatsReport {
    /// The stages of jobs.
    public enum Stage: String, CaseIterable, Sendable {
        /// Requests to the disk tier.
        case disk
        /// Downloads.
        case download
        /// Reads of local files; only queued ones are counted.
        case file
        /// Decodings and identifications.
        case decode
    }

    /// The durations of which the whole distribution is reported.
    public enum Distribution: String, CaseIterable, Sendable {
        /// A memory hit.
        case hit
        /// A load from the origin, from the request to the reply.
        case load
        /// One transfer, failed ones included.
        case download
        /// A decoding.
        case decode
        /// One event-loop iteration of the broker, excluding the wait for events.
        case loop
        /// A job's wait for its turn.
        case queue
        /// A download's wait because its origin asked for it (`Retry-After`).
        case held
        /// A lookup in the disk tier, from its order to its answer.
        case disk
        /// A job's wait for the shared tier: for its lookup, and for a record that another broker is about to write.
        case shared
        /// The read of a local file.
        case file
        /// The parts of a transfer: the look-up of the name, the connection, its TLS handshake, the wait for the
        /// response's first byte, and the rest of it.
        case dns, connect, tls
        case firstByte = "first-byte"
        case body
        /// The computation of a body's digest, with the decoding of a small image.
        case identify
        /// The parts of a decoding: the codec with colour conversion, scaling, the steps, encoding, and sealing.
        case codec, scale, steps, encode, seal
        /// The work between the last event of a request and its reply with an image, except for hits by a repeated
        /// text.
        case reply
    }

    /// The distribution of a duration, in buckets whose bounds are powers of two.
    public struct Histogram: Equatable, Sendable {
        /// The number of bounds; durations of at least the last bound, 67 seconds, are in one more bucket.
        public static let bounds = 27

        /// The number of durations.
        public var count = 0
        /// Their sum in microseconds.
        public var sumMicroseconds = 0
        /// The number of durations in each bucket: at index n those below 2^n microseconds that are in no earlier one.
        /// Buckets after the last one that is not empty are absent.
        public var buckets: [Int] = []

        /// Creates an empty histogram.
        public init() {}
    }

    /// The transfers from one origin.
    public struct Host: Equatable, Sendable {
        /// Scheme, host and port: "https://example.org:8443".
        public var origin = ""
        /// Ended transfers, failed ones included.
        public var transfers = 0
        /// Transfers that failed, or that were stopped because they had no waiters any more.
        public var failed = 0
        /// The bytes of bodies.
        public var bytes = 0
        /// The time of all transfers together.
        public var milliseconds = 0
        /// The time of the longest transfer.
        public var maxMilliseconds = 0

        /// Creates a row without transfers.
        public init() {}
    }

    /// The consumption of one user.
    public struct User: Equatable, Sendable {
        /// The user's id.
        public var uid = 0
        /// `get`s received.
        public var requests = 0
        /// `get`s that ended with an error.
        public var failed = 0
        /// The bytes of bodies that were downloaded for it.
        public var bytes = 0
        /// The time of transfers for it.
        public var downloadMilliseconds = 0
        /// The time of decodings for it.
        public var decodeMilliseconds = 0
        /// Bytes that its clients lease.
        public var leasedBytes = 0
        /// Its connections.
        public var clients = 0

        /// Creates a row of zeros.
        public init() {}
    }

    /// A worker that died.
    public struct Death: Equatable, Sendable {
        /// `fetch`, `decode` or `cache`.
        public var kind = ""
        /// Its process id, if it was started.
        public var pid: Int?
        /// The cause.
        public var cause = DeathCause.exit
        /// The cause and a description, as in the event `worker`.
        public var reason = ""
        /// The time since its death.
        public var secondsAgo = 0

        /// Creates a row.
        public init() {}
    }

    /// A worker's process.
    public struct Worker: Equatable, Sendable {
        /// `fetch`, `decode` or `cache`.
        public var kind = ""
        /// Its process id, once it is known.
        public var pid: Int?
        /// `starting`, `idle`, `busy`, or `ending`: it gets no more jobs.
        public var state = ""
        /// Its running jobs.
        public var jobs = 0
        /// The time since the start of the job that has run longest; nil without one, and for the disk tier.
        public var milliseconds: Int?
        /// The origin whose image that job loads or decodes; nil for an image that a client brought.
        public var origin: String?
        /// The user of that job's first waiter; nil for a job without waiters.
        public var uid: Int?

        /// Creates a row.
        public init() {}
    }

    /// The longest table.
    package static let mostRows = 10
}

extension StatsReport.Histogram: InitialFieldList {
    package mutating func list(_ fields: inout Fields) {
        fields.integer("count", &count, in: 0...Int.max)
        fields.integer("sumMicroseconds", &sumMicroseconds, in: 0...Int.max)
        fields.integers("buckets", &buckets, in: 0...Int.max, most: Self.bounds + 1)
    }
}

extension StatsReport.Host: InitialFieldList {
    package mutating func list(_ fields: inout Fields) {
        fields.string("origin", &origin)
        fields.integer("transfers", &transfers, in: 0...Int.max)
        fields.integer("failed", &failed, in: 0...Int.max)
        fields.integer("bytes", &bytes, in: 0...Int.max)
        fields.integer("milliseconds", &milliseconds, in: 0...Int.max)
        fields.integer("maxMilliseconds", &maxMilliseconds, in: 0...Int.max)
    }
}

extension StatsReport.User: InitialFieldList {
    package mutating func list(_ fields: inout Fields) {
        fields.integer("uid", &uid, in: 0...Int.max)
        fields.integer("requests", &requests, in: 0...Int.max)
        fields.integer("failed", &failed, in: 0...Int.max)
        fields.integer("bytes", &bytes, in: 0...Int.max)
        fields.integer("downloadMilliseconds", &downloadMilliseconds, in: 0...Int.max)
        fields.integer("decodeMilliseconds", &decodeMilliseconds, in: 0...Int.max)
        fields.integer("leasedBytes", &leasedBytes, in: 0...Int.max)
        fields.integer("clients", &clients, in: 0...Int.max)
    }
}

extension StatsReport.Death: InitialFieldList {
    package mutating func list(_ fields: inout Fields) {
        fields.string("kind", &kind)
        fields.integer("pid", &pid, in: 0...Int.max)
        fields.choice("cause", &cause)
        fields.string("reason", &reason)
        fields.integer("secondsAgo", &secondsAgo, in: 0...Int.max)
    }
}

extension StatsReport.Worker: InitialFieldList {
    package mutating func list(_ fields: inout Fields) {
        fields.string("kind", &kind)
        fields.integer("pid", &pid, in: 0...Int.max)
        fields.string("state", &state)
        fields.integer("jobs", &jobs, in: 0...Int.max)
        fields.integer("milliseconds", &milliseconds, in: 0...Int.max)
        fields.string("origin", &origin)
        fields.integer("uid", &uid, in: 0...Int.max)
    }
}
