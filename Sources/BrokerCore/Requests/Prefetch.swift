import HTTPValues
import IPCProtocol

/// A client's `prefetch`: a list of URLs, of which a few are loaded concurrently.
struct Prefetch {
    let client: ClientID
    let request: Int
    let uid: UInt32
    var options: GetOptions
    let total: Int
    /// The URLs that are not begun yet.
    var remaining: ArraySlice<SourceURL>
    /// Its weight among the client's requests.
    let weight: Int
    var running: Set<WaiterID> = []
    var done = 0
    var failed = 0
    /// Whether a call of `advance` is beginning URLs.
    var isAdvancing = false

    init(_ request: PrefetchRequest, of client: ClientID, uid: UInt32) {
        var options = request.options
        options.delivery = .none
        options.progress = false
        options.staleFirst = false
        self.client = client
        self.request = request.id
        self.uid = uid
        self.options = options
        total = request.urls.count
        remaining = request.urls[...]
        weight = request.weight
    }

    var progress: Reply { .prefetched(id: request, done: done, failed: failed, total: total) }
}
