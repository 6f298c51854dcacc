import BrokerCore
import LinuxSystem
import SystemValues

extension Broker {
    /// Takes the images that an earlier process has stored.
    func restoreStored(_ stored: [(name: String, descriptor: FileDescriptor)]) {
        guard let store, !stored.isEmpty else { return }
        guard let images = store.take(stored, log) else { return store.keep([], of: stored) }
        let needed = state.restore(
            images.state, skipping: DescriptorStore.skippedNumbers, at: .now, unixMs: WallClock.milliseconds)
        images.insert(needed, into: buffers)
        store.keep(needed, of: stored)
        let refused = images.refused > 0 ? ", \(images.refused) refused" : ""
        log.notice(.restored, "restored \(needed.count) images\(refused)")
    }

    /// Stores what has become worth it. Called every 100 ms at most.
    func advanceStore(isLast: Bool = false) {
        guard let store else { return }
        let (now, revision) = (Instant.now, state.keptRevision)
        if !isLast, !store.isDue(at: now, revision) { return }
        store.step(state.kept(atLeast: DescriptorStore.leastBytes), revision, buffers, at: now, isLast: isLast)
    }
}
