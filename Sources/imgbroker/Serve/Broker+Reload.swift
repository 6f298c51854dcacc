import BrokerCore
import IPCProtocol
import LinuxSystem
import SystemValues
import WorkerProtocol

// Reading the settings again, for `SIGHUP` or a client's `reload`.
extension Broker {
    private static let readingMilliseconds = 5000

    /// Reads the settings again and puts those into force that may change at run time. If one is wrong, none does.
    func reload(for requester: PendingReload.Requester) {
        announceReload()
        if pendingReload == nil {
            startReload(for: [requester])
        } else if pendingReload?.isLate == true {
            failReload(for: [requester], WireError(.timeout, "The sources of the settings are still being read."))
        } else if requester != nil || pendingReload?.next.contains(where: { $0 == nil }) == false {
            // One for all `SIGHUP`s; those of clients are counted among their requests.
            pendingReload?.next.append(requester)
        }
    }

    /// Tells the service manager that a reload has begun, as it expects after each `SIGHUP`, and `READY=1` then.
    private func announceReload() {
        let microseconds = Instant.now.nanoseconds / 1000
        ServiceManager.notify("RELOADING=1\nMONOTONIC_USEC=\(microseconds)")
    }

    private func startReload(for requesters: [PendingReload.Requester]) {
        do throws(SystemError) {
            let reading = try SettingsReading(of: settings)
            try queue.add(reading.waker.descriptor.raw, token: Self.token(.settings))
            pendingReload = PendingReload(
                reading: reading, deadline: .now.adding(milliseconds: Self.readingMilliseconds), requesters: requesters)
        } catch {
            failReload(for: requesters, WireError(.internal, "The settings cannot be read: \(error)."))
        }
    }

    /// Gives up a reading that takes too long. Called when a deadline may have passed.
    func advanceReload() {
        guard let reload = pendingReload, !reload.isLate, reload.deadline <= .now else { return }
        pendingReload?.requesters = []
        pendingReload?.next = []
        let message = "The sources of the settings were not read in \(Self.readingMilliseconds / 1000) s."
        failReload(for: reload.requesters + reload.next, WireError(.timeout, message))
    }

    /// Puts the settings into force that were read.
    func finishReload() {
        guard let reload = pendingReload, let outcome = reload.reading.outcome else { return }
        queue.remove(reload.reading.waker.descriptor.raw)
        pendingReload = nil
        // Its requesters were told that nothing changes.
        if reload.isLate { return }
        switch outcome {
        case .success((let settings, let report)):
            let result = Result<Reconfiguration, WireError>.success(adopt(settings, report))
            for requester in reload.requesters { handle(.reloaded(result, for: requester)) }
            ServiceManager.notify("READY=1")
        case .failure(let error): failReload(for: reload.requesters, WireError(.badRequest, "\(error)"))
        }
        if reload.next.isEmpty { return }
        announceReload()
        startReload(for: reload.next)
    }

    private func failReload(for requesters: [PendingReload.Requester], _ error: WireError) {
        log.error(.reload, "reload: nothing was changed: \(error.message)")
        for requester in requesters { handle(.reloaded(.failure(error), for: requester)) }
        ServiceManager.notify("READY=1")
    }

    /// Makes settings those of the shell and the disk tier, and logs what has changed. Returns the state's part.
    private func adopt(_ settings: Settings, _ read: ReloadReport) -> Reconfiguration {
        var report = read
        let (old, families) = (configuration, launcher.families)
        self.settings = settings
        launcher.openLoaders()
        report.changed += Self.changes(from: families, to: launcher.families)
        configuration = settings.configuration
        // Without a place for its directory there is no disk tier.
        configuration.limits.usesDisk = old.limits.usesDisk
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
        for change in report.changed { log.notice(.reload, "reload: \(change)") }
        for warning in configuration.warnings.values { log.warning(.reload, warning) }
        for change in report.refused { log.warning(.reload, "reload: \(change)") }
        if report == ReloadReport() { log.notice(.reload, "reload: no setting has changed") }
        var limits = configuration.limits.fitted(to: descriptors)
        if page == nil { limits.validitySlots = 0 }
        return Reconfiguration(
            limits: limits, isAllowedAddress: configuration.isAllowedAddress,
            replacesFetchers: configuration.allowedAddresses != old.allowedAddresses
                || configuration.slowestBody != old.slowestBody || configuration.fetchPrivate != old.fetchPrivate,
            report: report)
    }

    /// The change that installed and removed programs make, for the report.
    private static func changes(from old: Set<CodecFamily>, to new: Set<CodecFamily>) -> [ReloadReport.Change] {
        let names = { (families: Set<CodecFamily>) in
            CodecFamily.optional.filter(families.contains).map(\.rawValue).joined(separator: " ")
        }
        return old == new ? [] : [ReloadReport.Change(key: "loaders", old: names(old), new: names(new))]
    }
}
