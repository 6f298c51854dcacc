import ImageBrokerClient
import LinuxSystem
import SystemValues

/// The broker's statistics, requested at most a few times a second however many readers there are.
final class BrokerFigures: Sendable {
    private struct State {
        var reader: StatsReader
        var answer = StatsReader.Answer()
        var askedAt: Instant?
    }

    /// The time for which an answer is given again.
    private static let milliseconds = 200
    private let state: Locked<State>

    /// Reads from the broker at `path`, which need not exist yet.
    init(path: String) {
        state = Locked(State(reader: StatsReader(path: path, patience: 1000)))
    }

    /// The present statistics, or the reason for their absence. Waits for a broker that hangs for two seconds,
    /// at most for four.
    func read() -> StatsReader.Answer {
        state.withLock { state in
            if let askedAt = state.askedAt, Instant.now < askedAt.adding(milliseconds: Self.milliseconds) {
                return state.answer
            }
            state.answer = state.reader.read()
            state.askedAt = Instant.now
            return state.answer
        }
    }
}
