import IPCProtocol
import ImageBrokerClient
import LinuxSystem
import SystemValues

/// `imgbroker ctl top`: shows the broker's figures until a key ends it, or once.
enum TopCommand {
    /// The silence in milliseconds after which the broker is asked for a sign of life.
    private static let patience = 1000
    /// The width where standard output is no terminal, and `COLUMNS` says nothing.
    private static let usualColumns = 132

    /// Runs the command and returns the exit status. `once`: one frame, also where standard output is no terminal.
    static func run(path: String?, interval: Int, once: Bool) -> Int32 {
        let path = path ?? SocketPath.forClient
        var reader = StatsReader(path: path, patience: patience)
        let answer = reader.read()
        guard let report = answer.report else {
            return CommandConnection.report(answer.problem ?? .connectionLost, asJSON: false)
        }
        let terminal = CurrentProcess.environment("TERM") ?? "dumb"
        if once || Terminal.ofStandardOutput == nil || terminal == "dumb" { return showOnce(report) }
        do throws(SystemError) {
            var session = TopSession(reader: reader, screen: try TerminalScreen(), interval: interval, answer: answer)
            try session.run()
            return CommandStatus.done
        } catch {
            StandardError.write("the terminal cannot be used: \(error)")
            return CommandStatus.failed
        }
    }

    private static func showOnce(_ report: StatsReport) -> Int32 {
        let given = CurrentProcess.environment("COLUMNS").flatMap { Int($0) }.flatMap {
            (20...1000).contains($0) ? $0 : nil
        }
        var names = UserNames()
        names.add(report)
        let view = TopView(
            change: StatsChange(to: report), columns: Terminal.ofStandardOutput?.columns ?? given ?? usualColumns,
            rows: nil, names: names.all)
        let isUTF8 = TopGlyphs.isUTF8(CurrentProcess.environment)
        let lines = view.lines.map { isUTF8 ? $0.text : TopGlyphs.ascii($0.text) }
        StandardOutput.write(lines.map { $0 + "\n" }.joined())
        return CommandStatus.done
    }
}

struct UserNames {
    /// The names by user id; none for a user without a name.
    private(set) var known: [Int: String?] = [:]

    /// The names of the users that have one.
    var all: [Int: String] { known.compactMapValues { $0 } }

    /// Looks up the users in a report that are not known.
    mutating func add(_ report: StatsReport) {
        for uid in report.users.map(\.uid) + report.workerProcesses.compactMap(\.uid) where known[uid] == nil {
            known[uid] = .some(UInt32(exactly: uid).flatMap { CurrentProcess.userName($0) })
        }
        // Other software may listen at the socket, with ever new users.
        if known.count > 10_000 { known = [:] }
    }
}

/// The live view: requests the statistics, draws them, and reacts to keys.
struct TopSession {
    /// The length of the period that rates and durations are of, in milliseconds.
    private static let period = 10_000

    private var reader: StatsReader
    private let screen: TerminalScreen
    private var state = TopState()
    private var samples: [(at: Instant, report: StatsReport)] = []
    private var connection = 0
    private var problem: String?
    private var names = UserNames()
    private let isUTF8 = TopGlyphs.isUTF8(CurrentProcess.environment)
    private let hasColors = CurrentProcess.environment("NO_COLOR")?.isEmpty ?? true

    init(reader: StatsReader, screen: TerminalScreen, interval: Int, answer: StatsReader.Answer) {
        self.reader = reader
        self.screen = screen
        state.interval = interval
        note(answer)
    }

    /// Shows the figures until a key or a signal ends it.
    mutating func run() throws(SystemError) {
        var due = Instant.now.adding(milliseconds: state.interval * 1000)
        draw()
        while true {
            let left = max(0, due.microseconds(since: .now) / 1000 + 1)
            let interval = state.interval
            for event in try screen.wait(milliseconds: state.isPaused ? 60_000 : left) {
                switch event {
                case .ended: return
                case .changed: break
                case .keys(let bytes):
                    for key in TopState.keys(bytes) where !state.press(key) { return }
                }
            }
            if state.interval != interval { due = Instant.now.adding(milliseconds: state.interval * 1000) }
            if !state.isPaused, due <= .now {
                note(reader.read())
                due = Instant.now.adding(milliseconds: state.interval * 1000)
            }
            draw()
        }
    }

    private mutating func note(_ answer: StatsReader.Answer) {
        problem = answer.problem?.description
        guard let report = answer.report else { return }
        let now = Instant.now
        if answer.connection != connection { samples = [] }
        connection = answer.connection
        samples.append((now, report))
        // The oldest sample of the period stays, and at least the one before the last.
        let begin = now.adding(milliseconds: -Self.period - 500)
        while samples.count > 2, samples[0].at < begin { samples.removeFirst() }
        names.add(report)
    }

    private func draw() {
        guard let last = samples.last, let first = samples.first, let size = screen.size else { return }
        let seconds = Double(last.at.microseconds(since: first.at)) / 1e6
        let view = TopView(
            change: StatsChange(to: last.report, from: samples.count > 1 ? first.report : nil, seconds: seconds),
            columns: size.columns, rows: size.rows, state: state, problem: problem, names: names.all)
        screen.show(view.lines.map { styled($0, columns: size.columns) })
    }

    /// A line that is set off by escape sequences: bold and reverse, legible in any colours, and red for problems.
    private func styled(_ line: TopView.Line, columns: Int) -> String {
        let text = (isUTF8 ? line.text : TopGlyphs.ascii(line.text)).padded(to: columns)
        let code =
            switch line.style {
            case .plain: ""
            case .title: "7"
            case .headings: "1"
            case .alert: hasColors ? "1;31" : "1"
            }
        return code.isEmpty ? text : "\u{1B}[\(code)m\(text)\u{1B}[0m"
    }
}
