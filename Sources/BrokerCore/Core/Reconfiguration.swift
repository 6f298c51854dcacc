package import IPCProtocol

/// Settings that take the place of others while the broker runs.
package struct Reconfiguration {
    /// The limits. The numbers of workers and of what takes descriptors are unchanged.
    let limits: BrokerLimits
    /// Whether a download from this numeric address may be accepted.
    let isAllowedAddress: (String) -> Bool
    /// Whether download workers that run with the former settings take no more jobs.
    let replacesFetchers: Bool
    /// The changes, for the client that has asked for them.
    let report: ReloadReport

    package init(
        limits: BrokerLimits, isAllowedAddress: @escaping (String) -> Bool, replacesFetchers: Bool,
        report: ReloadReport
    ) {
        (self.limits, self.isAllowedAddress) = (limits, isAllowedAddress)
        (self.replacesFetchers, self.report) = (replacesFetchers, report)
    }
}
