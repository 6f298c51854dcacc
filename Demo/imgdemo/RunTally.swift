import IPCProtocol

/// What all processes together found out about one wish.
struct WishTally {
    /// What each process reports.
    var results: [ClientResult] = []

    /// A picture that came, to speak for all.
    var picture: ClientResult? { results.first { $0.failure == nil } }
    /// Why it did not come, to some process at least.
    var failure: String? { results.lazy.compactMap(\.failure).first }
    /// The buffers that processes got: each is the work of one decoding, or one copy from disk.
    var buffers: Set<Int> { Set(results.filter { $0.failure == nil }.map(\.inode)) }
    /// The most processes that map the same pages.
    var sharers: Int {
        Dictionary(grouping: results.filter { $0.failure == nil }, by: \.inode).values.map(\.count).max() ?? 0
    }
    /// What the processes saw; one element when all saw the same.
    var answers: Set<String> { Set(results.map { "\($0.failure ?? "") \($0.width) \($0.height) \($0.digest)" }) }
}

/// One run: some processes ask a broker for everything, all at once.
struct RunTally {
    /// By picture and size.
    let wishes: [[PictureSize: WishTally]]
    /// How often the origin was asked for each picture.
    let requestsToOrigin: [Int]
    let processes: Int
    /// The broker's figures afterwards.
    let stats: StatsReport
    /// The entries on disk when it began.
    let entriesBefore: Int
    let milliseconds: Int

    /// The buffers of one picture, or of all, in these sizes.
    func buffers(_ sizes: [PictureSize], of picture: Int? = nil) -> Set<Int> {
        let chosen = picture.map { [wishes[$0]] } ?? wishes
        return chosen.reduce(into: []) { all, tallies in for size in sizes { all.formUnion(tallies[size]!.buffers) } }
    }

    var requests: Int { wishes.reduce(0) { $0 + $1.values.reduce(0) { $0 + $1.results.count } } }
    var downloads: Int { requestsToOrigin.reduce(0, +) }
    /// The bytes of everything that came, each result counted once.
    var bytes: Int {
        wishes.reduce(0) { $0 + $1.values.reduce(0) { $0 + ($1.picture?.bytes ?? 0) } }
    }
}
