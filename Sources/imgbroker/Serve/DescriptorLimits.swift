import BrokerCore

// What may take descriptors, of which a process has a limited number.
extension BrokerLimits {
    /// The descriptors that clients and images need at least.
    private static let leastDescriptors = 16

    /// The descriptors of the workers and of the loop itself.
    private var descriptorsOfProcesses: Int {
        // Two for each process, spares included; a job's result is one, too.
        3 * (workers + fetchers + families.count * workersOfFamily + 5) + 16
    }

    var neededDescriptors: Int { descriptorsOfProcesses + Self.leastDescriptors }

    /// The limits with those of what takes descriptors, for a limit of descriptors.
    func fitted(to descriptors: Int) -> BrokerLimits {
        var limits = self
        var free = max(descriptors - descriptorsOfProcesses, Self.leastDescriptors)
        // The results of jobs that decode workers are given ahead take an eighth of them at most.
        limits.briefJobs = min(briefJobs, max(free / 8 / max(workers, 1), 1))
        free -= (limits.briefJobs - 1) * workers
        limits.maxClients = min(maxClients, max(free / 4, 8))
        limits.memoryEntries = min(memoryEntries, max(free / 2, 8))
        limits.maxLeasedBuffers = min(maxLeasedBuffers, max(descriptors / 4, 16))
        limits.maxEvictedBuffers = min(maxEvictedBuffers, max(free / 8, 8))
        limits.maxStores = min(maxStores, max(free / 8, 8))
        return limits
    }
}
