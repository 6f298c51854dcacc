@testable import struct BrokerCore.UseTable

/// The order of eviction by SIEVE (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024): entries are in the order of
/// arrival; a hit only marks its entry; a hand moves from the oldest to the newest, removes marks and stops at the
/// first entry without one.
struct SieveQueue<Element: Hashable> {
    private var arrivals = UseQueue<Element>()
    private var marked: Set<Element> = []
    private var hand: Element?

    /// Adds `element`, which is not in the queue, as the newest.
    mutating func insert(_ element: Element) { arrivals.use(element) }

    /// Records a request for `element`.
    mutating func mark(_ element: Element) {
        if arrivals.contains(element) { marked.insert(element) }
    }

    /// Removes the entry at which the hand stops.
    mutating func evict() -> Element? {
        while let element = hand ?? arrivals.oldest?.key {
            hand = arrivals.newer(than: element)
            if marked.remove(element) == nil {
                arrivals.remove(element)
                return element
            }
        }
        return nil
    }
}
