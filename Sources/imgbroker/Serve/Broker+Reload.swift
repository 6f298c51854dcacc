import BrokerCore
import IPCProtocol
import LinuxSystem
import SystemValues
import WorkerProtocol

// Reading the settings again, for `SIGHUP` or a client's `reload`.
extension Broker {
    /// Reads the settings again and puts into force those that may change while the broker runs. If one is wrong, none changes.
    func reload(for requester: (client: ClientID, id: Int)?) {
        let microseconds = Instant.now.nanoseconds / 1000
        ServiceManager.notify("RELOADING=1\nMONOTONIC_USEC=\(microseconds)")
        defer { ServiceManager.notify("READY=1") }
        do throws(UsageError) {
            var (settings, report) = try settings.reloaded()
            let old = configuration
            self.settings = settings
            let families = launcher.families
            launcher.openLoaders()
            report.changed += Self.changes(from: families, to: launcher.families)
            adopt(settings.configuration)
            for change in report.changed { log.notice(.reload, "reload: \(change)") }
            for warning in configuration.warnings.values { log.warning(.reload, warning) }
            for change in report.refused { log.warning(.reload, "reload: \(change)") }
            if report == ReloadReport() { log.notice(.reload, "reload: no setting has changed") }
            handle(
                .reloaded(
                    .success(
                        Reconfiguration(
                            limits: fittedLimits, isAllowedAddress: configuration.isAllowedAddress,
                            replacesFetchers: configuration.needsOtherFetchers(than: old), report: report)),
                    for: requester))
        } catch {
            log.error(.reload, "reload: nothing was changed: \(error)")
            handle(.reloaded(.failure(WireError(.badRequest, "\(error)")), for: requester))
        }
    }

    /// The change that installed and removed programs make, for the report.
    private static func changes(from old: Set<CodecFamily>, to new: Set<CodecFamily>) -> [ReloadReport.Change] {
        let names = { (families: Set<CodecFamily>) in
            CodecFamily.optional.filter(families.contains).map(\.rawValue).joined(separator: " ")
        }
        return old == new ? [] : [ReloadReport.Change(key: "loaders", old: names(old), new: names(new))]
    }

    /// Makes a configuration that of the shell and of the disk tier. The state's part is an event.
    private func adopt(_ new: Configuration) {
        let usesDisk = configuration.limits.usesDisk
        configuration = new
        // Without a place for its directory there is no disk tier.
        configuration.limits.usesDisk = usesDisk
        configuration.limits.families = launcher.families
        if let groupBytes { _ = configuration.limits.fit(intoGroupOf: groupBytes) }
        configuration.logFormat.isForJournal = log.format.isForJournal
        log.end()
        launcher.configuration = configuration
        log = Log(name: log.name, level: configuration.logLevel, format: configuration.logFormat)
        arriving.limit = Self.mostArriving(configuration.limits)
        for worker in workers.values where worker.kind == .cache {
            send(
                StoreOrder.limit(
                    originals: configuration.limits.diskBytes, rasters: configuration.rasterLimitBytes,
                    maxAgeSeconds: configuration.maxAge), to: worker.id)
        }
    }
}

extension Configuration {
    /// Whether download workers that were started with `old` must not go on.
    fileprivate func needsOtherFetchers(than old: Configuration) -> Bool {
        allowedAddresses != old.allowedAddresses || slowestBody != old.slowestBody
            || fetchPrivate != old.fetchPrivate
    }
}
