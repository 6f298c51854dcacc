import IPCProtocol
import SystemValues

/// The downloads that wait because their origin has asked not to be contacted for a while (`Retry-After`), by origin
/// and user.
///
/// After that time the origin is asked gently: one download is released, and with each answer one more may run at once,
/// so that the number doubles each time that all were answered.
struct HeldDownloads {
    private struct Line {
        /// Never that of another line.
        let number: Int
        /// When it is looked at next, if its origin asked for time.
        var dueAt: Instant?
        /// By priority and client.
        var waiting = UserQueue()
        /// The released downloads that were not answered yet: they are queued or running.
        var released: Set<JobID> = []
    }

    private typealias Place = (key: HostTable.Key, level: Int, standing: RoundRobinQueue.Standing)

    private var lines: [HostTable.Key: Line] = [:]
    private var places: [JobID: Place] = [:]
    /// The lines of which a download is a released one: that of the requested origin, and that of a target of
    /// redirects.
    private var permits: [JobID: [HostTable.Key]] = [:]
    /// The lines from which a download may be released: their time has come, or a released download has ended.
    private var changed = TurnOrder<HostTable.Key>()
    /// The keys of the lines by their numbers.
    private var keys: [Int: HostTable.Key] = [:]
    private var lastLine = 0
    private var lastRank = 0

    var count: Int { places.count }
    func key(ofLine line: Int) -> HostTable.Key? { keys[line] }

    /// Notes that the line of an origin, if there is one, is looked at again at this time. Returns its number; nil if
    /// that was noted, so that a line has one deadline for each time that its origin asked for.
    mutating func look(at key: HostTable.Key, again time: Instant) -> Int? {
        guard let line = lines[key], line.dueAt != time else { return nil }
        lines.change(key) { $0.dueAt = time }
        return line.number
    }

    /// Whether a download may start now: it was released, or is released because the limit permits one more.
    mutating func admits(_ job: JobID, _ key: HostTable.Key, most: Int) -> Bool {
        if lines[key]?.released.contains(job) == true { return most > 0 }
        guard lines[key]?.released.count ?? 0 < most, lines[key]?.waiting.isEmpty ?? true else { return false }
        permit(job, key)
        return true
    }

    private mutating func permit(_ job: JobID, _ key: HostTable.Key) {
        changeLine(key) { $0.released.insert(job) }
        permits.change(job, default: []) { $0.append(key) }
    }

    mutating func hold(_ job: JobID, _ key: HostTable.Key, priority: GetOptions.Priority, client: ClientID?) {
        ended(job)
        lastRank += 1
        let standing = RoundRobinQueue.Standing(client: client, rank: lastRank)
        insert(job, (key, UserQueue.level(of: priority), standing))
        changed.enter(key)
    }

    mutating func change(_ job: JobID, to priority: GetOptions.Priority) {
        guard let place = places[job] else { return }
        lines.change(place.key) { $0.waiting.remove(job, at: place.level) }
        insert(job, (place.key, UserQueue.level(of: priority), place.standing))
    }

    private mutating func insert(_ job: JobID, _ place: Place) {
        places[job] = place
        changeLine(place.key) { $0.waiting.insert(job, place.standing, at: place.level) }
    }

    private mutating func changeLine(_ key: HostTable.Key, _ body: (inout Line) -> Void) {
        if lines[key] == nil {
            lastLine += 1
            keys[lastLine] = key
        }
        lines.change(key, default: Line(number: lastLine), body)
    }

    mutating func remove(_ job: JobID) {
        guard let place = places.removeValue(forKey: job) else { return }
        lines.change(place.key) { $0.waiting.remove(job, at: place.level) }
        forgetIfEmpty(place.key)
    }

    /// Notes that a download is neither queued nor running any more, so that another one may be.
    mutating func ended(_ job: JobID) {
        for key in permits.removeValue(forKey: job) ?? [] {
            lines.change(key) { $0.released.remove(job) }
            changed.enter(key)
            forgetIfEmpty(key)
        }
    }

    /// Notes that more downloads of an origin may run than before.
    mutating func mayRelease(_ key: HostTable.Key) {
        if lines[key] != nil { changed.enter(key) }
    }

    /// Removes the next download that may go on, with `most` of an origin at once.
    mutating func release(most: (HostTable.Key) -> Int) -> JobID? {
        while let key = changed.first() {
            guard let released = lines[key]?.released.count, released < most(key),
                let job = lines.change(key, { $0.waiting.first() }) ?? nil, let place = places.removeValue(forKey: job)
            else {
                changed.pauseFirst()
                continue
            }
            lines.change(key) { $0.waiting.serve(job, at: place.level) }
            permit(job, key)
            return job
        }
        return nil
    }

    private mutating func forgetIfEmpty(_ key: HostTable.Key) {
        guard let line = lines[key], line.waiting.isEmpty, line.released.isEmpty else { return }
        lines[key] = nil
        keys[line.number] = nil
        changed.remove(key)
    }

    var waiting: Set<JobID> { Set(places.keys) }
    var released: Set<JobID> { Set(permits.keys) }

    func brokenInvariant() -> String? {
        if lines.values.reduce(0, { $0 + $1.waiting.count }) != places.count { return "number of held downloads" }
        if lines.values.contains(where: { $0.waiting.isEmpty && $0.released.isEmpty }) {
            return "a line of no download"
        }
        if lines.values.reduce(0, { $0 + $1.released.count }) != permits.values.reduce(0, { $0 + $1.count }) {
            return "number of released downloads"
        }
        if keys != Dictionary(uniqueKeysWithValues: lines.map { ($1.number, $0) }) { return "numbers of lines" }
        return changed.count <= lines.count ? nil : "a changed line that is gone"
    }
}
