import IPCProtocol
import SystemValues

/// What is not tried again for a while, because trying it has just shown that it will not do. What a network's moods or
/// the broker's own troubles may have caused is never here, for that may be over at once.
struct FailedList {
    /// What the list says of one URL.
    struct Entry {
        let url: String
        let error: WireError
        let expires: Instant
    }

    /// An original in whatever form, or in one only.
    private struct Place: Hashable {
        let key: OriginalKey
        let form: Form?
    }

    /// However long a response says that its failure holds.
    private static let longestSeconds = 3600

    private let capacity: Int
    private var places: [Place: Entry] = [:]
    private var expiries = MinHeap<Instant, Place>()

    init(capacity: Int = 10_000) {
        self.capacity = capacity
    }

    /// Notes a failure. `lifetime` is for how many seconds the response itself says that it holds (none for `no-store`);
    /// nil leaves that to the class of the failure. Returns whether this failure is on the list now.
    mutating func note(
        _ error: WireError, key: OriginalKey, form: Form, url: String, lifetime: Int?, at now: Instant
    ) -> Bool {
        guard let usual = Self.seconds(for: error) else { return false }
        let place = Place(key: key, form: error.code == .tooManyPixels || form.isOfOtherFrames ? form : nil)
        let seconds = min(lifetime ?? usual, Self.longestSeconds)
        guard seconds > 0, capacity > 0 else {
            // The latest word of the origin is that nobody should rely on it.
            remove(place)
            return false
        }
        let expires = now.adding(milliseconds: seconds * 1000)
        places[place] = Entry(url: url, error: error, expires: expires)
        expiries.insert(place, key: expires)
        sweep()
        while places.count > capacity, let (expires, place) = expiries.popFirst() {
            if places[place]?.expires == expires { places[place] = nil }
        }
        return places[place] != nil
    }

    /// The answer to a request for what is on the list; nil when it may be tried.
    func refusal(of key: OriginalKey, form: Form, at now: Instant) -> WireError? {
        let entry = [nil, form].lazy.compactMap { places[Place(key: key, form: $0)] }.first { $0.expires > now }
        guard let entry else { return nil }
        let milliseconds = (entry.expires.microseconds(since: now) + 999) / 1000
        let seconds = (milliseconds + 999) / 1000
        let message = "This has failed before and is not tried again for \(seconds) s: \(entry.error.message)"
        var error = WireError(
            .blacklisted, message, httpStatus: entry.error.httpStatus, retryAfterMs: max(milliseconds, 1))
        error.cause = entry.error.code
        return error
    }

    /// Takes what could be loaded after all off the list.
    mutating func succeeded(_ key: OriginalKey, form: Form) {
        if places.isEmpty { return }
        remove(Place(key: key, form: nil))
        remove(Place(key: key, form: form))
    }

    /// What is on the list now, by URL.
    func entries(at now: Instant) -> [Entry] {
        places.values.filter { $0.expires > now }.sorted {
            ($0.url, $0.expires, $0.error.code.rawValue) < ($1.url, $1.expires, $1.error.code.rawValue)
        }
    }

    /// Takes a URL, or everything, off the list. Returns how many entries that were, expired ones included.
    mutating func clear(url: String?) -> Int {
        let before = places.count
        places = url == nil ? [:] : places.filter { $0.value.url != url }
        sweep()
        return before - places.count
    }

    /// How many are on the list now.
    func count(at now: Instant) -> Int {
        places.values.count { $0.expires > now }
    }

    /// Forgets what has expired.
    mutating func removeExpired(at now: Instant) {
        while let (expires, place) = expiries.first, expires <= now {
            expiries.popFirst()
            if places[place]?.expires == expires { places[place] = nil }
        }
    }

    private mutating func remove(_ place: Place) {
        if places.removeValue(forKey: place) != nil { sweep() }
    }

    private mutating func sweep() {
        let places = places
        expiries.sweep(live: places.count) { places[$1]?.expires == $0 }
    }

    /// For how long a failure holds when nothing else is said; nil for one that is never noted.
    private static func seconds(for error: WireError) -> Int? {
        switch error.code {
        case .httpStatus: error.httpStatus.flatMap(seconds(forStatus:))
        case .tlsFailed, .tooManyRedirects, .unsupportedScheme, .forbiddenAddress: 30
        case .unsupportedFormat, .truncated, .decodeFailed, .emptyImage: 600
        case .tooLarge, .tooManyPixels: 3600
        // The network's moods.
        case .hostUnavailable, .dnsFailed, .connectFailed, .timeout, .transferFailed: nil
        // About the request or its fate, not about what it asked for.
        case .badFrame, .badRequest, .unsupportedVersion, .forbidden, .notCached, .blacklisted, .cancelled,
            .shuttingDown, .overloaded, .quotaExceeded:
            nil
        // The broker's own; pictures that decoders die on have their quarantine.
        case .decoderCrashed, .decoderUnavailable, .outOfMemory, .diskFailed, .internal: nil
        }
    }

    private static func seconds(forStatus status: Int) -> Int? {
        switch status {
        case 404: 60
        case 410: 600
        // These say that it may go well another time, and soon.
        case 408, 425, 429: nil
        case 400...499: 30
        default: nil
        }
    }
}
