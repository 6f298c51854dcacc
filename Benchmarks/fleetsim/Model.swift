import SystemValues

/// A fleet, its load and its shared tier. Times are in seconds, sizes in bytes.
struct Model {
    var hosts = 3
    /// Requests of one host for images that its clients do not have, per second.
    var rate = 10.0
    var images = 100_000
    /// The exponent of the popularity.
    var exponent = 0.9
    var bytes = 8192
    /// The time for which an original is fresh.
    var lifetime = 3600.0
    var duration = 60.0
    /// The originals that one host keeps.
    var localImages = 20_000
    var nodes = 2
    var nodeBytes = 1 << 30
    /// The line of a node, in bytes per second.
    var line = 1.25e9
    /// The time that a node takes for a command, besides its line.
    var command = 10e-6
    var roundTrip = 0.2e-3
    var originLatency = 0.1
    /// Whether there is a shared tier.
    var isShared = true
    /// When the first node is lost.
    var lostAt: Double?

    // The constants of the broker (SharedTier, imgtier).
    static let hedge = 0.25
    static let ejection = 30.0
    static let connect = 0.05
    static let poll = (least: 0.025, most: 0.25)
    /// The bytes of a record besides the body.
    static let overhead = 400
}

/// The figures of a run.
struct Figures {
    var requests = 0
    var localHits = 0
    var sharedHits = 0
    var originRequests = 0
    /// Those of hosts that had left out the lost node.
    var originForLost = 0
    var polls = 0
    var distinct = 0
    /// Commands and bytes by node.
    var commands: [Int] = []
    var bytes: [Int] = []
    /// The latencies of requests that the host could not answer alone.
    var latencies: [Float] = []

    /// A quantile of the latencies in milliseconds.
    func latency(_ quantile: Double) -> Double {
        if latencies.isEmpty { return 0 }
        let sorted = latencies.sorted()
        return Double(sorted[min(sorted.count - 1, Int(Double(sorted.count) * quantile))]) * 1000
    }
}

/// Runs a model: requests in the order of time, each with the state of its host, its node and its image.
struct Simulation {
    private struct Record {
        /// When the record can be read; later than now while a host has the lease.
        var from = -1.0
        var until = -1.0
    }

    private let model: Model
    private var random: SplitMix64
    private let popularity: Popularity
    /// What each host has, by image: from when and until when.
    private var local: [[Int32: (from: Float, until: Float)]]
    private var records: [Record]
    /// The records on each node in the order of their writing, for eviction.
    private var written: [[Int32]]
    private var evicted: [Int]
    /// The time in seconds for which each node is busy, by tenths of a second.
    private var busy: [[Double]]
    /// Until when each host leaves out the lost node.
    private var ejectedUntil: [Float]
    private var seen: [Bool]
    private(set) var figures = Figures()

    init(_ model: Model, seed: UInt64 = 1) {
        self.model = model
        random = SplitMix64(state: seed)
        popularity = Popularity(count: model.images, exponent: model.exponent)
        local = Array(repeating: [:], count: model.hosts)
        records = Array(repeating: Record(), count: model.images)
        written = Array(repeating: [], count: model.nodes)
        evicted = Array(repeating: 0, count: model.nodes)
        let tenths = Int(model.duration * 10) + 100
        busy = Array(repeating: Array(repeating: 0, count: tenths), count: model.nodes)
        ejectedUntil = Array(repeating: -1, count: model.hosts)
        seen = Array(repeating: false, count: model.images)
        figures.commands = Array(repeating: 0, count: model.nodes)
        figures.bytes = Array(repeating: 0, count: model.nodes)
    }

    /// Runs requests that arrive at random.
    mutating func run() {
        var now = 0.0
        let total = model.rate * Double(model.hosts)
        while true {
            now += exponential(1 / total, random.unit())
            if now >= model.duration { return }
            request(popularity.image(&random), on: random.index(below: model.hosts), at: now)
        }
    }

    /// Requests every image on every host once, within `time`: the measured small case.
    mutating func runCold(within time: Double) {
        var requests: [(time: Double, image: Int, host: Int)] = []
        for host in 0..<model.hosts {
            for image in 0..<model.images { requests.append((random.unit() * time, image, host)) }
        }
        for (time, image, host) in requests.sorted(by: { $0.time < $1.time }) { request(image, on: host, at: time) }
    }

    private mutating func request(_ image: Int, on host: Int, at now: Double) {
        figures.requests += 1
        if let entry = local[host][Int32(image)], Double(entry.until) > now {
            figures.localHits += 1
            if Double(entry.from) > now { figures.latencies.append(entry.from - Float(now)) }
            return
        }
        let (at, until) = load(image, on: host, at: now)
        if local[host].count >= model.localImages, let other = local[host].keys.first { local[host][other] = nil }
        local[host][Int32(image)] = (Float(at), Float(until))
        figures.latencies.append(Float(at - now))
    }

    /// Loads an image that the host does not have. Returns when it is there, and until when it is fresh.
    private mutating func load(_ image: Int, on host: Int, at now: Double) -> (Double, Double) {
        let node = Int(truncatingIfNeeded: (UInt64(image) &* 0x9E37_79B9_7F4A_7C15) >> 33) % model.nodes
        guard model.isShared else { return origin(image, at: now) }
        if let lostAt = model.lostAt, node == 0, now >= lostAt {
            figures.originForLost += 1
            if Double(ejectedUntil[host]) > now { return origin(image, at: now) }
            ejectedUntil[host] = Float(now + Model.ejection)
            return origin(image, at: now + Model.connect)
        }
        var answered = command(on: node, bytes: 0, at: now)
        let record = records[image]
        if record.until > answered, record.from <= answered {
            figures.sharedHits += 1
            answered = command(on: node, bytes: model.bytes + Model.overhead, at: now)
            // The origin is asked as well after 250 ms; the first answer wins.
            if answered - now > Model.hedge {
                let (other, until) = origin(image, at: now + Model.hedge)
                return (min(answered, other), until)
            }
            return (answered, record.until)
        }
        if record.until > answered {
            // Another host has the lease.
            var time = answered
            repeat {
                figures.polls += 1
                let pause = Model.poll.least + random.unit() * (Model.poll.most - Model.poll.least)
                time = command(on: node, bytes: 0, at: time + pause)
            } while time < record.from
            figures.sharedHits += 1
            return (command(on: node, bytes: model.bytes + Model.overhead, at: time), record.until)
        }
        // Its lookup, `add` and second look, and later the record with the end of the lease.
        _ = command(on: node, bytes: 0, at: now)
        _ = command(on: node, bytes: 0, at: now)
        let (at, until) = origin(image, at: answered + 2 * model.roundTrip)
        records[image] = Record(from: at + model.roundTrip, until: until)
        write(image, on: node)
        return (at, until)
    }

    private mutating func origin(_ image: Int, at now: Double) -> (Double, Double) {
        figures.originRequests += 1
        if !seen[image] {
            seen[image] = true
            figures.distinct += 1
        }
        // Half of the latency varies.
        let latency = model.originLatency * (0.5 + exponential(0.5, random.unit()))
        return (now + latency, now + latency + model.lifetime)
    }

    /// Sends a command to a node. Returns when the answer has come: after the mean wait in a queue of its present load
    /// (M/D/1), because commands are not modelled in the order of their time.
    private mutating func command(on node: Int, bytes: Int, at now: Double) -> Double {
        figures.commands[node] += 1
        figures.bytes[node] += bytes
        let service = model.command + Double(bytes) / model.line
        let tenth = min(max(0, Int(now * 10)), busy[node].count - 1)
        busy[node][tenth] += service
        let load = min(busy[node][tenth] * 10, 0.99)
        return now + model.roundTrip + service * (1 + load / (2 * (1 - load)))
    }

    /// Writes a record, for which the oldest ones leave a full node.
    private mutating func write(_ image: Int, on node: Int) {
        figures.commands[node] += 3
        figures.bytes[node] += model.bytes + Model.overhead
        written[node].append(Int32(image))
        while (written[node].count - evicted[node]) * (model.bytes + Model.overhead) > model.nodeBytes {
            let oldest = Int(written[node][evicted[node]])
            evicted[node] += 1
            if oldest != image { records[oldest] = Record() }
        }
    }
}
