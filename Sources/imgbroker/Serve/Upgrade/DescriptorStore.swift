import BrokerCore
import LinuxSystem
import SharedCache
import SystemValues

/// Large images in the descriptor store of the service manager, which hands them to the next process after a restart or
/// a crash (`FDSTORE` in sd_notify(3)). Each has its memfd there under its number, and a state says what they are.
///
/// Small images are left out: to store one costs about as much as to decode it. Images since the last state are lost
/// with a crash.
final class DescriptorStore {
    /// Smaller images are not stored, nor are those in segments: after a crash another image may be at their place.
    static let leastBytes = (64 << 10) + 1
    /// The numbers of buffers that are skipped after a restart: those that were given since the last state.
    static let skippedNumbers = 1 << 20

    private static let statePrefix = ServiceManager.storePrefix + "state-"
    private static let imagePrefix = ServiceManager.storePrefix + "image-"
    /// Marks a process that has restored images and has not lived for long yet.
    private static let trialName = ServiceManager.storePrefix + "trial"

    /// The time between two states.
    private static let periodMicroseconds = 5_000_000
    /// The time after which a process counts as sound.
    private static let trialMicroseconds = 10_000_000
    /// The processes that may end so soon, one after the other, before the store is emptied.
    private static let mostTrials = 3
    private static let imagesAtOnce = 64
    /// The milliseconds that each message of the last step may wait.
    private static let mostWaits = 100
    /// The descriptors that are no images: two states and the marks.
    private static let others = 8

    private let capacity: Int
    /// The numbers of the images in the store.
    private(set) var images: Set<Int> = []
    private(set) var lastState = 0
    private var revision: Int?
    private var syncedAt: Instant
    private var startedAt: Instant
    private var isOnTrial = false
    /// Names that are to be removed when the service manager has room for the message.
    private var removals: [String] = []

    /// Without a service manager that stores descriptors, nil.
    init?(at now: Instant) {
        capacity = ServiceManager.storeCapacity - Self.others
        (syncedAt, startedAt) = (now, now)
        if capacity <= 0 { return nil }
    }

    /// Goes on with what the process has stored whose place this one takes.
    func takeOver(images: [Int], lastState: Int) {
        self.images = Set(images)
        self.lastState = lastState
    }

    // MARK: After a start

    /// Takes what an earlier process has stored. Returns its images, each verified; nil without any.
    func take(_ stored: [(name: String, descriptor: FileDescriptor)], _ log: Log) -> RestoredImages? {
        let names = Set(stored.map(\.name))
        let trials = stored.count { $0.name == Self.trialName }
        let states = stored.compactMap { item in Self.number(item.name, Self.statePrefix).map { ($0, item.descriptor) }
        }
        lastState = states.map(\.0).max() ?? 0
        if trials >= Self.mostTrials {
            log.warning(.restored, "the last \(trials) processes ended soon after their start: images are not restored")
            names.forEach(remove)
            return nil
        }
        // Before anything is read, which may be what ended them.
        let mark = try? WritableBuffer(name: "imgbroker-trial").descriptor
        isOnTrial = Self.store(mark, as: Self.trialName) || trials > 0

        var files: [Int: FileDescriptor] = [:]
        for (name, file) in stored where Self.number(name, Self.imagePrefix) != nil {
            if let inode = try? file.inode() { files[inode] = file }
        }
        var found: RestoredImages?
        for (number, file) in states.sorted(by: { $0.0 > $1.0 }) where found == nil {
            do {
                var state = try KeptState(in: file)
                state.isSuspended = false
                found = RestoredImages(state) { files[$0.inode] }
            } catch {
                log.warning(.restored, "stored state \(number) is not used: \(error)")
            }
        }
        return found
    }

    /// Keeps the images in the store that the broker needs, and removes everything else.
    func keep(_ needed: Set<BufferID>, of stored: [(name: String, descriptor: FileDescriptor)]) {
        for (name, items) in Dictionary(grouping: stored, by: \.name) {
            if let number = Self.number(name, Self.imagePrefix), items.count == 1,
                needed.contains(BufferID(number: number))
            {
                images.insert(number)
            } else if name != Self.trialName, name != Self.statePrefix + "\(lastState)" {
                remove(name)
            }
        }
    }

    // MARK: While the broker runs

    /// Whether `isDue` is to be asked now and then.
    func isBehind(_ revision: Int) -> Bool { isOnTrial || self.revision != revision || !removals.isEmpty }

    /// Whether `step` has something to do.
    func isDue(at now: Instant, _ revision: Int) -> Bool {
        sendRemovals()
        return isOnTrial && now.microseconds(since: startedAt) >= Self.trialMicroseconds
            || self.revision != revision && now.microseconds(since: syncedAt) >= Self.periodMicroseconds
    }

    /// Stores the most valuable images and a new state. With `isLast`, all that there is room for.
    func step(_ kept: KeptState, _ revision: Int, _ table: BufferTable, at now: Instant, isLast: Bool = false) {
        if isOnTrial, now.microseconds(since: startedAt) >= Self.trialMicroseconds {
            remove(Self.trialName)
            isOnTrial = false
        }
        syncedAt = now
        let wanted = Self.wanted(kept, capacity)
        for number in images.subtracting(wanted) { drop(BufferID(number: number)) }
        for number in wanted.subtracting(images).sorted().prefix(isLast ? .max : Self.imagesAtOnce) {
            let file = table.memfd(of: BufferID(number: number))
            // Without room in the socket it goes on in the next step.
            guard Self.store(file, as: Self.imagePrefix + "\(number)", waits: isLast) else { break }
            images.insert(number)
        }
        let isStored = storeState(kept, table, waits: isLast)
        self.revision = isStored && wanted.isSubset(of: images) ? revision : nil
    }

    func drop(_ buffer: BufferID) {
        if images.remove(buffer.number) != nil { remove(Self.imagePrefix + "\(buffer.number)") }
    }

    private func storeState(_ kept: KeptState, _ table: BufferTable, waits: Bool) -> Bool {
        var state = kept
        for index in state.contents.indices {
            state.contents[index].buffers = state.contents[index].buffers.compactMap { buffer in
                guard images.contains(buffer.number),
                    let file = table.memfd(of: BufferID(number: buffer.number)), let inode = try? file.inode()
                else { return nil }
                var buffer = buffer
                buffer.place = KeptBuffer.Place(descriptor: nil, inode: inode)
                return buffer
            }
        }
        state.contents.removeAll(where: \.buffers.isEmpty)
        guard Self.store(try? state.sealed().memory, as: Self.statePrefix + "\(lastState + 1)", waits: waits) else {
            return false
        }
        if lastState > 0 { remove(Self.statePrefix + "\(lastState)") }
        lastState += 1
        return true
    }

    /// The numbers of the images that are worth most: the time to make one again times its uses, less the longer it is
    /// not used.
    private static func wanted(_ kept: KeptState, _ capacity: Int) -> Set<Int> {
        let buffers = kept.contents.flatMap(\.buffers).filter { $0.bytes >= leastBytes }
        if buffers.count <= capacity { return Set(buffers.map(\.number)) }
        func worth(_ buffer: KeptBuffer) -> Double {
            Double(buffer.microseconds + 1) * Double(buffer.uses) / Double(buffer.idleMs + 1000)
        }
        return Set(buffers.sorted { worth($0) > worth($1) }.prefix(capacity).map(\.number))
    }

    private static func number(_ name: String, _ prefix: String) -> Int? {
        name.hasPrefix(prefix) ? Int(name.dropFirst(prefix.count)).flatMap { $0 > 0 ? $0 : nil } : nil
    }

    /// Stores a descriptor; false without room for the message. With `waits`, it waits some milliseconds for room.
    private static func store(_ file: FileDescriptor?, as name: String, waits: Bool = false) -> Bool {
        guard let file else { return false }
        for _ in 0..<(waits ? mostWaits : 1) {
            if ServiceManager.notify("FDSTORE=1\nFDNAME=\(name)\nFDPOLL=0", file) { return true }
            if waits { _ = CurrentProcess.pause(milliseconds: 1) }
        }
        return false
    }

    private func remove(_ name: String) {
        removals.append(name)
        sendRemovals()
    }

    private func sendRemovals() {
        while let name = removals.last, ServiceManager.notify("FDSTOREREMOVE=1\nFDNAME=\(name)") {
            removals.removeLast()
        }
    }
}

// Images that outlast the process in the service manager's descriptor store.
