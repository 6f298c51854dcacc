/// Whether new images are worth the place of those that are evicted for them.
///
/// Where a program uses all images of a set in a random order, again and again, as training does, the image that was
/// just used is the one that is needed last. A cache that evicts another one for it then loses nearly all hits,
/// although keeping any part of the set would give that part's share of them.
///
/// So a sample of the images measures both sides: the time per byte that a new image saves if it is used again before
/// as many others are added as the cache holds, and the time that an evicted one would have saved if it is requested
/// again as soon. While the second is more than twice the first, other new images are on probation. (Sampling as in
/// Qureshi et al., "Adaptive Insertion Policies for High Performance Caching", ISCA 2007.)
struct Admission {
    /// One of so many images is in the sample. It is admitted always.
    private static let sampling = 16
    /// The part that each new measurement has in the mean.
    private static let weight: Float = 1 / 64
    private static let advantage: Float = 2
    /// The most evicted images of the sample that are remembered.
    private static let mostEvicted = 1 << 16

    /// The number of images that were added.
    private var clock = 0
    /// The microseconds per byte that a new image saves, as a moving mean.
    private var savingOfNew: Float = 0
    /// Those that an evicted image would have saved.
    private var savingOfEvicted: Float = 0
    /// The images of the sample that are in the cache, by element. `added` is nil after the second use.
    private var sample: [Int: (name: Int, added: Int?)] = [:]
    /// The times at which images of the sample were evicted, by name.
    private var evictions = UseTable<Int, Int>()

    /// Whether new images outside of the sample are on probation.
    var isStrict: Bool { savingOfEvicted > savingOfNew * Self.advantage }

    static func isSampled(_ name: Int) -> Bool { name & (sampling - 1) == 0 }

    /// Notes that an image was added to a cache of `count`. It keeps its name, a hash value, when it is evicted and
    /// made again.
    mutating func added(_ element: Int, _ name: Int, saving: Float, among count: Int) {
        clock += 1
        while let oldest = evictions.oldest,
            clock - oldest.value > count || evictions.count > Self.mostEvicted
        {
            evictions.remove(oldest.key)
            Self.note(0, in: &savingOfEvicted)
        }
        guard Self.isSampled(name) else { return }
        if evictions[name] != nil {
            evictions.remove(name)
            Self.note(saving, in: &savingOfEvicted)
        }
        sample[element] = (name, clock)
    }

    /// Notes the second use of an image of the sample.
    mutating func used(_ element: Int, saving: Float, among count: Int) {
        guard let added = sample[element]?.added else { return }
        sample[element]?.added = nil
        Self.note(clock - added <= count ? saving : 0, in: &savingOfNew)
    }

    /// Notes that an image of the sample was evicted.
    mutating func evicted(_ element: Int) {
        guard let (name, added) = sample.removeValue(forKey: element) else { return }
        if added != nil { Self.note(0, in: &savingOfNew) }
        evictions.use(name, clock)
    }

    /// Forgets an image of the sample that was removed for another reason.
    mutating func removed(_ element: Int) { sample[element] = nil }

    private static func note(_ saving: Float, in mean: inout Float) { mean += (saving - mean) * weight }

    /// The first rule that does not hold; nil when all do.
    func brokenInvariant(isSampled: (Int) -> Bool) -> String? {
        if !sample.keys.allSatisfy(isSampled) { return "an image of the sample that is gone" }
        return evictions.count > Self.mostEvicted + 1 ? "evicted images" : nil
    }
}
