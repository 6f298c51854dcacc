import HTTPCaching

extension BrokerState {
    /// How much there may be of everything, and how long it may take.
    struct Limits {
        var workers = 4
        var fetchers = 1
        /// Transfers that one download worker runs at once.
        var transfersPerFetcher = 64
        /// Transfers from one origin at once.
        var transfersPerOrigin = 6
        var memoryBytes = 512 << 20
        /// The most buffers in memory, as each takes a descriptor.
        var memoryEntries = 65_536
        /// The slots of the validity page; 0 where there is none.
        var validitySlots = 65_536
        var maxDownloadBytes = 32 << 20
        /// The most pixels of a result, and of a source that is not made smaller.
        var maxPixels = 50_000_000
        /// The most pixels of a source that is made smaller.
        var maxSourcePixels = 300_000_000
        /// What decoding one picture may take of memory, the result included.
        var workerMemoryBytes = 1 << 30
        /// The most bytes that a decode worker may be asked to hold beside the result: without what it may have grown by
        /// in its life.
        var maxWorkingBytes: Int { max(workerMemoryBytes - WorkerPool.toleratedGrowth, 1) }
        /// What `scaleDown` brings a picture under, in bytes of pixels.
        var scaleDownBytes = 60_000_000
        /// Whether there is a disk tier.
        var usesDisk = false
        var diskBytes = 4 << 30
        /// Bytes that wait to be kept; beyond, what comes is not kept.
        var maxKeepingBytes = 256 << 20
        var lookupDeadlineMs = 5_000
        var clearDeadlineMs = 120_000
        var maxInlineBytes = 64 << 20
        /// Unanswered requests of one client.
        var maxPendingRequests = 1024
        /// Bytes of the buffers that one client leases.
        var maxLeasedBytes = 2 << 30
        /// Buffers that one client leases: evicted ones take descriptors too.
        var maxLeasedBuffers = 65_536
        /// Bytes of evicted buffers that are still leased, of which clients and users have shares.
        var maxEvictedBytes = 512 << 20
        /// Such buffers, as each takes a descriptor.
        var maxEvictedBuffers = 16_384
        /// Open connections, of which users have shares.
        var maxClients = 65_536
        /// What the unanswered requests of all weigh: one each, and one for each full KiB that it says.
        var maxRequests = 65_536
        /// Subscriptions of all.
        var maxSubscriptions = 1024
        /// The processor time that one picture may take.
        var decodeSeconds = 10
        /// What it may take by the clock: a worker may have to wait for a processor, or wait for ever.
        var decodeDeadlineMs = 20_000
        var workerStartDeadlineMs = 10_000
        /// How long a worker may live on without its socket.
        var workerEndDeadlineMs = 1_000
        var frameDeadlineMs = 30_000
        /// In which order the jobs of one client and one priority are begun.
        var queueOrder = JobQueue.Order.fifo
        /// What is assumed of responses that do not say.
        var caching = CacheSettings()
        /// How often a failed transfer is tried again before anybody hears of it.
        var retries = 1
        /// After how long a silence an origin counts as one that cannot be reached.
        var patienceMs = 10_000
        /// How long a worker may take to stop a transfer.
        var stopDeadlineMs = 10_000
        /// How often a body that was cut short is continued.
        var resumptions = 8
        /// Beginnings of bodies that are kept for later requests, their bytes, and for how long.
        var maxPartials = 32
        var maxPartialBytes = 32 << 20
        var partialMs = 600_000
        /// URLs of one prefetch that are loaded at once.
        var prefetchesAtOnce = 8
        /// Prefetches of one client.
        var maxPrefetches = 16
        /// Whether a request may ask for a server's certificate not to be looked at.
        var allowsInvalidCertificates = false
        /// Whether workers may work that are not confined.
        var allowsUnsandboxed = false
        /// How long pending requests may go on when the process is asked to end.
        var drainMs = 4_000
    }
}
