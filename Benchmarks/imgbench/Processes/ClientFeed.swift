import BrokerHarness

/// What it costs that clients (`benchclient feed`) load the images `url`/0, `url`/1, … from a broker, each once.
struct ClientFeed {
    /// The time until they have all images, in milliseconds.
    let elapsed: Double
    /// The processor time of the clients, in milliseconds.
    let own: Double
    /// That of the broker's processes until they rest, by their kind.
    let milliseconds: [ProcessorTimes.Kind: Double]

    /// Measures clients that divide the images among them, each with `inFlight` requests at once, for images of `side`
    /// pixels; 0 for their own size.
    ///
    /// - Throws: `Failure` when a client does not get its images.
    init(
        of broker: BrokerProcess, _ run: BenchmarkRun, from url: String, count: Int, side: Int = 0, inFlight: Int = 64,
        clients number: Int = 1
    ) throws {
        let clients = try (0..<number).map { client in
            let (first, end) = (count * client / number, count * (client + 1) / number)
            return try LineProcess(
                ownProgram("benchclient"),
                ["feed", broker.socketPath, url, "\(end - first)", "\(side)", "\(inFlight)", "\(first)"])
        }
        defer { clients.forEach { $0.stop() } }
        for client in clients where client.line() != "ready" { throw Failure("the client does not start") }
        var times = ProcessorTimes(of: broker.pid)
        times.sample()
        times.settle(pauseMilliseconds: run.scaled(100, 20))
        let before = times.milliseconds
        let (elapsed, lines) = timed {
            for client in clients { client.write("go") }
            return clients.map { $0.line(each: 20) { times.sample() } }
        }
        own = try lines.map { try LineProcess.number(in: $0, "the client did not get its images") }.reduce(0, +)
        times.settle(pauseMilliseconds: run.scaled(100, 20))
        self.elapsed = elapsed
        milliseconds = times.milliseconds.reduce(into: [:]) { $0[$1.key] = $1.value - (before[$1.key] ?? 0) }
    }
}
