import SystemValues

/// The user and the sources that the cost of an image in decoders is charged to.
struct Responsible: Hashable {
    /// The user whose request caused the decoding. One that joins it is not charged.
    let user: UInt32
    /// Where the image comes from: origins (`http://a.test`), last an origin's redirects
    /// (`what http://a.test redirects to`) if it was redirected, or the user who brought the bytes (`user 1000`).
    let sources: [String]
}

/// The decoders of one family that died of images lately, and the pauses that follow from them.
///
/// A user's images of a source are paused after more than four deaths within ten minutes. All images of a user, of a
/// source, or of the family are paused after more than eight, of which one user, and one source, counts for at most
/// four: so it takes three sources to pause a user, three users to pause a source, and three of both to pause the
/// family. A pause lasts for a second, and twice as long after each further death. Deaths in a pause are not charged:
/// they are of images that were decoded already when it began.
struct CrashLedger {
    /// The images that a pause is about.
    struct Scope: Hashable {
        /// Nil for all users.
        var user: UInt32?
        /// Nil for all sources.
        var source: String?

        /// Its kind for the log, and its images for messages.
        var texts: (kind: String, images: String) {
            switch (user, source) {
            case (nil, nil): ("family", "images of several users and sources")
            case (nil, let source?): ("source", "images of \(source) that several users requested")
            case (_?, nil): ("user", "one user's images of several sources")
            case (_?, let source?): ("user-source", "one user's images of \(source)")
            }
        }
    }

    struct Pause: Equatable {
        let scope: Scope
        let milliseconds: Int
    }

    private struct Death {
        let responsible: Responsible
        let at: Instant

        /// The source that stands for it where each counts for a share.
        var source: String { responsible.sources.last ?? "" }

        func isIn(_ scope: Scope) -> Bool {
            (scope.user ?? responsible.user) == responsible.user
                && scope.source.map(responsible.sources.contains) ?? true
        }
    }

    /// The deaths that are tolerated of one user's images of one source, and the most that one user, or one source,
    /// counts for.
    static let tolerated = 4
    /// The deaths that are tolerated of several users or sources.
    static let toleratedOfSeveral = 8
    /// The time for which a death counts.
    static let milliseconds = 10 * 60 * 1000
    static let firstPauseMs = 1000
    /// The most deaths that are known; the oldest are forgotten for others.
    static let capacity = 256

    /// In the order of their times.
    private var deaths: [Death] = []

    var count: Int { deaths.count }

    /// Charges the death of a decoder, unless such images are paused. Returns the pause that begins.
    mutating func note(_ responsible: Responsible, at now: Instant) -> Pause? {
        if pause(of: responsible, at: now) != nil { return nil }
        deaths.removeAll { $0.at.adding(milliseconds: Self.milliseconds) <= now }
        if deaths.count == Self.capacity { deaths.removeFirst() }
        deaths.append(Death(responsible: responsible, at: now))
        return pause(of: responsible, at: now)
    }

    func pause(of responsible: Responsible, at now: Instant) -> Pause? {
        if deaths.isEmpty { return nil }
        let (user, sources) = (responsible.user, responsible.sources)
        let scopes =
            sources.map { Scope(user: user, source: $0) } + [Scope(user: user)] + sources.map { Scope(source: $0) }
            + [Scope()]
        return scopes.compactMap { pause(of: $0, at: now) }.max { $0.milliseconds < $1.milliseconds }
    }

    private func pause(of scope: Scope, at now: Instant) -> Pause? {
        let tolerated = scope.user != nil && scope.source != nil ? Self.tolerated : Self.toleratedOfSeveral
        var count = 0
        var last = now
        var ofUser: [UInt32: Int] = [:]
        var ofSource: [String: Int] = [:]
        for death in deaths where death.isIn(scope) && death.at.adding(milliseconds: Self.milliseconds) > now {
            let user = death.responsible.user
            if scope.user == nil, ofUser[user, default: 0] == Self.tolerated { continue }
            if scope.source == nil, ofSource[death.source, default: 0] == Self.tolerated { continue }
            ofUser[user, default: 0] += 1
            ofSource[death.source, default: 0] += 1
            count += 1
            last = death.at
        }
        guard count > tolerated else { return nil }
        let length = min(Self.firstPauseMs << min(count - tolerated - 1, 10), Self.milliseconds)
        let until = last.adding(milliseconds: length)
        guard until > now else { return nil }
        return Pause(scope: scope, milliseconds: until.milliseconds(after: now))
    }
}
