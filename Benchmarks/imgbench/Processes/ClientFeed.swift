import BrokerHarness

/// What it costs that a client (`benchclient feed`) loads the images `url`/0, `url`/1, … from a broker, each once.
struct ClientFeed {
    /// The time until it has all images, in milliseconds.
    let elapsed: Double
    /// The processor time of the client, in milliseconds.
    let own: Double
    /// That of the broker's processes until they rest, by their kind.
    let milliseconds: [ProcessorTimes.Kind: Double]

    /// Measures a client with `inFlight` requests at once, for images of `side` pixels; 0 for their own size.
    ///
    /// - Throws: `Failure` when the client does not get its images.
    init(
        of broker: BrokerProcess, _ run: BenchmarkRun, from url: String, count: Int, side: Int = 0, inFlight: Int = 64
    ) throws {
        let client = try LineProcess(
            ownProgram("benchclient"), ["feed", broker.socketPath, url, "\(count)", "\(side)", "\(inFlight)"])
        defer { client.stop() }
        guard client.line() == "ready" else { throw Failure("the client does not start") }
        var times = ProcessorTimes(of: broker.pid)
        times.sample()
        times.settle(pauseMilliseconds: run.scaled(100, 20))
        let before = times.milliseconds
        let (elapsed, line) = timed {
            client.write("go")
            return client.line(each: 20) { times.sample() }
        }
        guard let own = line?.split(separator: " ").first.flatMap({ Double($0) }) else {
            throw Failure("the client did not get its images")
        }
        times.settle(pauseMilliseconds: run.scaled(100, 20))
        (self.elapsed, self.own) = (elapsed, own)
        milliseconds = times.milliseconds.reduce(into: [:]) { $0[$1.key] = $1.value - (before[$1.key] ?? 0) }
    }
}
