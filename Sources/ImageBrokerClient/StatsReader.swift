package import IPCProtocol

/// Requests the broker's statistics repeatedly, over a connection that is kept while it works.
package struct StatsReader {
    /// The broker's answer.
    package struct Answer: Sendable {
        /// The statistics; nil while no broker answers.
        package var report: StatsReport?
        /// The broker's name and version.
        package var server: String?
        /// Why there is no report.
        package var problem: ClientError?
        /// Changes with each new connection, so also with each new broker.
        package var connection = 0

        /// Creates an answer of no broker.
        package init() {}
    }

    private let path: String
    /// The milliseconds of silence after which the broker is asked for a sign of life.
    private let patience: Int
    private var broker: ImageBroker?
    private var answer = Answer()

    /// Reads from the broker at `path`, which need not exist yet.
    package init(path: String, patience: Int) {
        self.path = path
        self.patience = patience
    }

    /// Requests the statistics. Waits for a broker that hangs for twice the patience, at most for four times.
    package mutating func read() -> Answer {
        // A kept connection ends with its broker; another one may have taken its place.
        var mayRetry = broker != nil
        answer.report = nil
        while true {
            do throws(ClientError) {
                try request()
                return answer
            } catch {
                (broker, answer.server, answer.problem) = (nil, nil, error)
                guard mayRetry, case .connectionLost = error else { return answer }
                mayRetry = false
            }
        }
    }

    private mutating func request() throws(ClientError) {
        if broker == nil {
            let broker = try ImageBroker(path: path, patience: patience)
            answer.server = try broker.hello(client: ProductVersion.product).server
            answer.connection += 1
            self.broker = broker
        }
        answer.report = try broker?.stats()
        answer.problem = nil
    }
}
