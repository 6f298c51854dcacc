import HTTPValues
import IPCProtocol
import SystemValues

/// The URLs that failed recently and are not tried again for a while (the wire's failed list). Failures that the
/// network or the broker may have caused are not in it, because they may be over at once.
struct RecentFailures {
    /// A URL that failed.
    struct Entry {
        let url: String
        let error: WireError
        let expires: Instant
        /// The bytes that are no image, if they were received.
        let content: ContentKey?
        /// Whether it says nothing about requests that accept damage, because this one accepted none.
        fileprivate let refusedDamage: Bool
        /// The bytes of the texts of its key, and of its form's steps.
        fileprivate let keyBytes: Int

        /// About its memory, in bytes.
        fileprivate var bytes: Int { 200 + url.utf8.count + keyBytes + error.message.utf8.count }
    }

    /// An original in any form, or in one only.
    private struct Place: Hashable {
        let key: OriginalKey
        let form: Form?
    }

    /// The longest lifetime, also for responses that state a longer one.
    private static let longestSeconds = 3600

    /// The most memory that all entries take, in bytes. Those that expire first are forgotten for others.
    static let maximumBytes = 4 << 20
    /// The longest message that is kept, in characters: it may quote what an origin has sent.
    static let longestMessage = 300

    private let capacity: Int
    private var places: [Place: Entry] = [:]
    /// The memory of all entries, in bytes.
    private(set) var bytes = 0
    private var expiries = MinHeap<Instant, Place>()

    init(capacity: Int = 10_000) {
        self.capacity = capacity
    }

    /// Notes a failure. `lifetime` is the lifetime in seconds that the response states (0 for `no-store`); nil leaves
    /// it to the kind of failure. It lengthens the time of a status, which is the origin's statement, if `mayLengthen`
    /// says so, but not that of a body that is no image. Returns whether this failure is remembered.
    mutating func note(
        _ error: WireError, key: OriginalKey, form: Form, url: String, lifetime: Int?, mayLengthen: Bool = true,
        of content: ContentKey? = nil,
        at now: Instant
    ) -> Bool {
        guard let seconds = Self.lifetime(of: error, stated: lifetime, mayLengthen: mayLengthen) else { return false }
        let place = Place(key: key, form: error.code == .tooManyPixels || form.isOfOtherFrames ? form : nil)
        guard seconds > 0, capacity > 0 else {
            // The origin's latest response must not be relied on.
            remove(place)
            return false
        }
        let expires = now.adding(milliseconds: seconds * 1000)
        var error = error
        error.message = String(error.message.prefix(Self.longestMessage))
        let steps = place.form?.transform?.edits?.steps.count ?? 0
        let keyBytes = key.textBytes + steps * MemoryLayout<Step>.stride
        let refusedDamage = !form.acceptsDamage && [.truncated, .decodeFailed].contains(error.code)
        set(
            place,
            Entry(
                url: url, error: error, expires: expires, content: content, refusedDamage: refusedDamage,
                keyBytes: keyBytes))
        expiries.insert(place, key: expires)
        sweep()
        while places.count > capacity || bytes > Self.maximumBytes, let (expires, place) = expiries.popFirst() {
            if places[place]?.expires == expires { set(place, nil) }
        }
        return places[place] != nil
    }

    /// The time in seconds for which a failure is remembered; nil for one that is not.
    static func lifetime(of error: WireError, stated: Int?, mayLengthen: Bool) -> Int? {
        guard let usual = seconds(for: error) else { return nil }
        let longest = error.code == .httpStatus && mayLengthen ? longestSeconds : usual
        return min(stated ?? usual, longest)
    }

    /// The error for a recent failure; nil when it may be tried. With `content`, none known to be of other bytes.
    func refusal(of key: OriginalKey, form: Form, content: ContentKey? = nil, at now: Instant) -> WireError? {
        let entry = [nil, form].lazy.compactMap { places[Place(key: key, form: $0)] }.first {
            $0.expires > now && !(form.acceptsDamage && $0.refusedDamage)
                && (content == nil || $0.content == nil || $0.content == content)
        }
        guard let entry else { return nil }
        let milliseconds = (entry.expires.microseconds(since: now) + 999) / 1000
        let seconds = (milliseconds + 999) / 1000
        let message = "This has failed before and is not tried again for \(seconds) s: \(entry.error.message)"
        var error = WireError(
            .recentlyFailed, message, httpStatus: entry.error.httpStatus, retryAfterMs: max(milliseconds, 1))
        error.cause = entry.error.code
        return error
    }

    mutating func succeeded(_ key: OriginalKey, form: Form) {
        if places.isEmpty { return }
        remove(Place(key: key, form: nil))
        remove(Place(key: key, form: form))
    }

    /// The current entries, by URL.
    func entries(at now: Instant) -> [Entry] {
        places.values.filter { $0.expires > now }.sorted {
            ($0.url, $0.expires, $0.error.code.rawValue) < ($1.url, $1.expires, $1.error.code.rawValue)
        }
    }

    /// Forgets a URL's failures, or all. Returns the number of entries, expired ones included.
    mutating func clear(url: String?) -> Int {
        let before = places.count
        places = url == nil ? [:] : places.filter { !url.hasSameBytes(as: $0.value.url) }
        bytes = places.values.reduce(0) { $0 + $1.bytes }
        sweep()
        return before - places.count
    }

    func count(at now: Instant) -> Int { places.values.count { $0.expires > now } }

    mutating func removeExpired(at now: Instant) {
        while let (expires, place) = expiries.first, expires <= now {
            expiries.popFirst()
            if places[place]?.expires == expires { set(place, nil) }
        }
    }

    private mutating func remove(_ place: Place) {
        if places[place] == nil { return }
        set(place, nil)
        sweep()
    }

    private mutating func set(_ place: Place, _ entry: Entry?) {
        bytes += (entry?.bytes ?? 0) - (places[place]?.bytes ?? 0)
        places[place] = entry
    }

    private mutating func sweep() {
        let places = places
        expiries.sweep(live: places.count) { places[$1]?.expires == $0 }
    }

    /// The lifetime of a failure in seconds, unless its response states one; nil for a failure that is not remembered.
    private static func seconds(for error: WireError) -> Int? {
        switch error.code {
        case .httpStatus: error.httpStatus.flatMap(seconds(forStatus:))
        case .tlsFailed, .tooManyRedirects, .unsupportedScheme, .forbiddenAddress: 30
        case .unsupportedFormat, .decodeFailed, .emptyImage: 600
        // A camera, or a file that is being written: the next one may be whole.
        case .truncated: 10
        case .tooLarge, .tooManyPixels: 3600
        // The network may have caused these.
        case .hostUnavailable, .dnsFailed, .connectFailed, .timeout, .transferFailed: nil
        // About the request, not about its original.
        case .badFrame, .badRequest, .unsupportedVersion, .forbidden, .notCached, .recentlyFailed, .cancelled,
            .shuttingDown, .overloaded, .quotaExceeded:
            nil
        // The broker's own. Images that kill decoders are quarantined.
        case .decoderCrashed, .decoderUnavailable, .outOfMemory, .diskFailed, .internal: nil
        }
    }

    private static func seconds(forStatus status: Int) -> Int? {
        switch status {
        case 404: 60
        case 410: 600
        // These may succeed soon.
        case 408, 425, 429: nil
        case 400...499: 30
        default: nil
        }
    }
}
