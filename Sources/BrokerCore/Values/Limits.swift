package import HTTPCaching
package import IPCProtocol
package import SystemValues
package import WorkerProtocol

/// The bounds of memory, concurrency and time.
package struct BrokerLimits: Sendable {
    /// The order of one client's jobs of one priority.
    package enum QueueOrder {
        case fifo, lifo
    }

    /// The least memory that a worker needs, even for small images.
    package static let leastWorkerMemory = 128 << 20
    /// The growth of a worker's own memory that is tolerated over its life, in bytes.
    static let toleratedGrowth = 64 << 20

    /// The least severe lines of the log. Others are not composed.
    package var logLevel = LogLevel.notice
    package var workers = 4
    package var fetchers = 1
    /// The families whose programs are installed, besides the plain one.
    package var families: Set<CodecFamily> = []
    /// The most workers of such a family.
    package var workersOfFamily: Int { max(1, workers / 2) }
    /// The time after which a worker of such a family exits if it has no job.
    package var familyIdleMs = 60_000
    /// The time after which the download workers exit if there is no download. libcurl has closed idle connections by
    /// then, after 118 s.
    package var fetcherIdleMs = 120_000
    /// The most brief jobs of one user that a decode worker is given at once, so that it need not be woken for each.
    package var briefJobs = 8
    /// The jobs after which a download or decode worker is retired. To start a download worker takes as long as it does
    /// with a hundred small images, and its connections are lost with it.
    package var jobsOfAWorker = 5000
    /// The most contents that are noted as contributed by one worker, of about 100 bytes each. If one that has
    /// contributed to more turns out to be compromised, the whole cache is discarded.
    package var contentsOfAWorker = 65_536
    /// The concurrent transfers of one download worker.
    package var transfersPerFetcher = 64
    /// The concurrent transfers from one origin, each of which takes a connection.
    package var transfersPerOrigin = 6
    /// The concurrent transfers from one origin that answers over shared connections (HTTP/2).
    package var multiplexedTransfersPerOrigin = 32
    package var memoryBytes = 512 << 20
    /// The most memfds that any limit of descriptors permits.
    static let mostMemoryEntries = 65_536
    /// The most memfds, because each takes a descriptor.
    package var memoryEntries = Self.mostMemoryEntries
    /// The most bytes of a result in a segment; 0 where each result has a memfd. A copy of more costs more than a
    /// memfd.
    package var mostSegmentImageBytes = 0
    /// The bytes that an image without a memfd counts besides its own, because no descriptors limit the number of
    /// records.
    package var recordBytes = 1 << 10
    package static let usualSegmentImageBytes = 256 << 10
    /// The bytes of a user's first segment, and the most of any.
    package var leastSegmentBytes = 1 << 20
    package var mostSegmentBytes = 32 << 20
    /// The slots of the validity page; 0 without one.
    package var validitySlots = 65_536
    package var maxDownloadBytes = 32 << 20
    /// The most bytes of a local file.
    package var maxFileBytes = 256 << 20
    /// The local files that are read at once, of which users have shares.
    package var readsAtOnce = 16
    /// The same for one user, whose helper reads one at a time.
    package var readsOfUser = 2
    /// The time after which a read gives way to another user's that waits.
    package var readPatienceMs = 10_000
    /// The pause after which a file that could not be read is tried again.
    package var readPauseMs = 1000
    /// The most pixels of a result, and of a source that is not made smaller.
    package var maxPixels = 50_000_000
    /// The most pixels of a source that is made smaller.
    package var maxSourcePixels = 300_000_000
    /// The memory that decoding one image may take, the result included.
    package var workerMemoryBytes = 1 << 30
    /// The most bytes that a decode worker may hold beside the result, less the growth that is tolerated over its life.
    package var maxWorkingBytes: Int { max(workerMemoryBytes - Self.toleratedGrowth, 1) }
    /// The bytes of pixels that `scaleDown` keeps an image below.
    package var scaleDownBytes = 60_000_000
    /// Whether there is a disk tier.
    package var usesDisk = false
    package var diskBytes = 4 << 30
    /// Whether there is a tier that this broker shares with others.
    package var usesSharedTier = false
    /// Whether encoded variants are shared, too: they go to clients without being decoded again, so only records of
    /// brokers with the same key are believed.
    package var sharesVariants = false
    /// The most records that are being written to the shared tier, each of which may take a descriptor of its process:
    /// `SandboxPolicy.tier` permits twice as many. Further ones are not shared.
    package var maxSharedWrites = 512
    /// The most bytes that the cache process has still to save on disk. Beyond, originals are postponed and rasters are
    /// not saved. A larger original is never saved.
    package var maxSavingBytes = 256 << 20
    package var lookupDeadlineMs = 5_000
    package var clearDeadlineMs = 120_000
    package var maxInlineBytes = 64 << 20
    /// Unanswered requests of one client.
    package var maxPendingRequests = 1024
    /// Bytes of the buffers that one client leases.
    package var maxLeasedBytes = 2 << 30
    /// Buffers that one client leases: evicted ones take descriptors too.
    package var maxLeasedBuffers = 65_536
    /// Bytes of evicted buffers that are still leased, of which clients and users have shares.
    package var maxEvictedBytes = 512 << 20
    /// Such buffers, because each takes a descriptor.
    package var maxEvictedBuffers = 16_384
    /// Open connections, of which users have shares.
    package var maxClients = 65_536
    /// The weight of all unanswered requests: one each, and one for each full KiB of its text.
    package var maxRequests = 65_536
    /// The `store`s of all clients that are not decoded yet, each of which takes a descriptor.
    package var maxStores = 8192
    /// The subscriptions of all clients.
    package var maxSubscriptions = 1024
    /// The processor time that one image may take in all, in seconds.
    package var decodeSeconds = 10
    /// The elapsed time that a decode worker may take to read the header, and again from its admission to write the
    /// result. It includes waiting for a processor, but not for memory. A partial decoding has this time in all.
    package var decodeDeadlineMs = 20_000
    /// The elapsed time in which a worker with several small images must end one.
    package var briefDeadlineMs = 1000
    /// The largest body that is decoded while it is identified, in bytes.
    package var earlyBodyBytes = 64 << 10
    /// The least and the greatest room for its result, in bytes, and the room for each byte of the body; pages that are
    /// not written take no memory.
    package var leastEarlyResultBytes = 256 << 10
    package var mostEarlyResultBytes = 1 << 20
    package var earlyResultBytesPerByte = 16
    package var workerStartDeadlineMs = 10_000
    /// The time that a worker may live on without its socket.
    package var workerEndDeadlineMs = 1_000
    package var frameDeadlineMs = 30_000
    /// The order of one client's jobs of one priority.
    package var queueOrder = QueueOrder.fifo
    /// The freshness assumed for responses that state none.
    package var caching = CacheSettings()
    /// The retries of a failed transfer before its requests fail.
    package var retries = 1
    /// The silence after which an origin counts as unreachable.
    package var patienceMs = 10_000
    /// The time that a worker may take to stop a transfer.
    package var stopDeadlineMs = 10_000
    /// The silence of an origin after which its transfer gives way to another user's waiting job.
    package var yieldSilenceMs = 60_000
    /// The time after which a transfer that is retried alone lets the next one begin.
    package var suspicionMs = 10_000
    /// The continuations of a body that is cut short.
    package var resumptions = 8
    /// The most bodies whose beginnings are kept in memory for later requests (`KeptBody`); 0 keeps none.
    package var maxKeptBodies = 32
    /// The most bytes of all those beginnings.
    package var maxKeptBodyBytes = 32 << 20
    /// The time for which each is kept.
    package var keptBodyMs = 600_000
    /// The URLs of one prefetch that are loaded concurrently.
    package var prefetchesAtOnce = 8
    /// Prefetches of one client.
    package var maxPrefetches = 16
    /// The variants that requests may name.
    package var presets: [String: GetOptions.Variant] = [:]
    /// Whether users who are no administrators may request no other variants.
    package var allowsPresetsOnly = false
    /// Whether a request may ask for a server's certificate not to be verified.
    package var allowsInvalidCertificates = false
    /// Whether workers may work without a sandbox.
    package var allowsUnsandboxed = false
    /// The time that pending requests may go on after a shutdown was requested.
    package var drainMs = 4_000

    package init() {}

    /// Bounds memory by the limit of a control group, of which a quarter, and at least 128 MiB, stays for the processes
    /// themselves. Returns whether anything changed.
    ///
    /// - Parameter bytes: the group's limit.
    package mutating func fit(intoGroupOf bytes: Int) -> Bool {
        let room = max(bytes - max(bytes / 4, 128 << 20), bytes / 4)
        guard room < max(memoryBytes, workerMemoryBytes) else { return false }
        if room < memoryBytes {
            memoryBytes = room
            // Evicted images that are still leased take memory beside the others.
            maxEvictedBytes = min(maxEvictedBytes, max(room / 2, 16 << 20))
        }
        workerMemoryBytes = min(workerMemoryBytes, max(room, Self.leastWorkerMemory))
        return true
    }

    /// The room for the result of decoding a body of `bytes` bytes while it is identified.
    package func earlyResultBytes(ofBody bytes: Int) -> Int {
        let wanted = earlyResultBytesPerByte * min(bytes, mostEarlyResultBytes)
        return min(max(wanted, leastEarlyResultBytes), mostEarlyResultBytes)
    }
}
