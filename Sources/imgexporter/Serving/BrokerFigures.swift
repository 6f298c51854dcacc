import IPCProtocol
import ImageBrokerClient
import LinuxSystem
import SystemValues

/// The broker's statistics, requested at most a few times a second however many readers there are.
final class BrokerFigures: Sendable {
    /// What the broker has answered.
    struct Answer {
        var report: StatsReport?
        var server: String?
        var problem: String?
    }

    private struct State {
        var broker: ImageBroker?
        var answer = Answer()
        var askedAt: Instant?
    }

    /// The time for which an answer is given again.
    private static let milliseconds = 200
    private let path: String
    private let state = Locked(State())

    /// Reads from the broker at `path`, which need not exist yet.
    init(path: String) {
        self.path = path
    }

    /// The present statistics, or the reason for their absence. Waits for a broker that hangs for two seconds,
    /// at most for four.
    func read() -> Answer {
        state.withLock { state in
            if let askedAt = state.askedAt, Instant.now < askedAt.adding(milliseconds: Self.milliseconds) {
                return state.answer
            }
            do throws(ClientError) {
                try ask(&state)
            } catch {
                // A kept connection ends with its broker; another one may have taken its place.
                let wasKept = state.broker != nil
                state.broker = nil
                state.answer = Answer(problem: "\(error)")
                if wasKept, case .connectionLost = error {
                    do throws(ClientError) {
                        try ask(&state)
                    } catch {
                        state.broker = nil
                        state.answer = Answer(problem: "\(error)")
                    }
                }
            }
            state.askedAt = Instant.now
            return state.answer
        }
    }

    private func ask(_ state: inout State) throws(ClientError) {
        if state.broker == nil {
            let broker = try ImageBroker(path: path, patience: 1000)
            state.answer.server = try broker.hello(client: ProductVersion.product).server
            state.broker = broker
        }
        guard let broker = state.broker else { return }
        let server = state.answer.server
        state.answer = Answer(report: try broker.stats(), server: server)
    }
}
