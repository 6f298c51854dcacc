/// The savings of a cache, as shares of the maximum.
struct Result {
    var requests = 0.0
    var bytes = 0.0
    var time = 0.0

    static func + (left: Result, right: Result) -> Result {
        Result(
            requests: left.requests + right.requests, bytes: left.bytes + right.bytes, time: left.time + right.time)
    }

    static func / (left: Result, right: Result) -> Result {
        Result(
            requests: left.requests / right.requests, bytes: left.bytes / right.bytes, time: left.time / right.time)
    }
}

extension Result {
    /// Counts one request for an image.
    init(_ picture: Picture) {
        self.init(requests: 1, bytes: Double(picture.bytes), time: picture.milliseconds)
    }

    /// Returns the savings of a cache of this capacity by this policy.
    static func savings(
        of policy: any Policy, _ requests: [Int], _ pictures: [Picture], capacity: Int
    ) -> Result {
        var policy = policy
        var isCached = [Bool](repeating: false, count: pictures.count)
        var free = capacity
        var (saved, all) = (Result(), Result())
        for place in requests {
            let picture = pictures[place]
            all = all + Result(picture)
            if isCached[place] {
                saved = saved + Result(picture)
                policy.hit(place)
                continue
            }
            if picture.bytes > capacity { continue }
            while picture.bytes > free {
                let evicted = policy.evict()
                isCached[evicted] = false
                free += pictures[evicted].bytes
            }
            policy.insert(place, picture)
            isCached[place] = true
            free -= picture.bytes
        }
        return saved / all
    }

    /// Returns the bound for all policies, even with knowledge of the future: PFOO-L (Berger, Beckmann and
    /// Harchol-Balter, "Practical Bounds on Optimal Caching with Variable Object Sizes", 2018). Keeping an image until
    /// its next request takes its bytes for that long; the cheapest are taken until the cache's bytes for the length of
    /// the trace are used up.
    static func bound(_ requests: [Int], _ pictures: [Picture], capacity: Int) -> Result {
        Result(
            requests: bound(requests, pictures, capacity) { _ in 1 },
            bytes: bound(requests, pictures, capacity) { Double($0.bytes) },
            time: bound(requests, pictures, capacity) { $0.milliseconds })
    }

    private static func bound(
        _ requests: [Int], _ pictures: [Picture], _ capacity: Int, value: (Picture) -> Double
    ) -> Double {
        var last = [Int?](repeating: nil, count: pictures.count)
        var intervals: [(room: Double, value: Double)] = []
        var all = 0.0
        for (time, place) in requests.enumerated() {
            let picture = pictures[place]
            all += value(picture)
            if let last = last[place], picture.bytes <= capacity {
                intervals.append((Double(picture.bytes) * Double(time - last), value(picture)))
            }
            last[place] = time
        }
        intervals.sort { $0.room * $1.value < $1.room * $0.value }
        var (room, saved) = (Double(capacity) * Double(requests.count), 0.0)
        for interval in intervals {
            let share = min(1, room / interval.room)
            saved += interval.value * share
            room -= interval.room * share
            if room <= 0 { break }
        }
        return saved / all
    }
}
