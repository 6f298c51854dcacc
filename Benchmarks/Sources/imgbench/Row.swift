/// A figure and how far its repetitions lie apart.
struct Spread: Codable {
    let median: Double
    let low: Double
    let high: Double
}

/// One line of the table: what was measured beside what, and what it should not exceed.
struct Row: Codable {
    /// A figure in the row's unit, and whose it is.
    struct Figure: Codable {
        let name: String
        let value: Double
    }

    /// Whose a figure is that `against` says enough of.
    static let reference = "reference"

    /// The benchmark's name, a dot, and what of it.
    let id: String
    let what: String
    let against: String
    /// Ours by the other's, both from the same turn.
    let ratio: Spread
    /// What the ratio should not exceed; nil for what is only shown.
    let goal: Double?
    /// Ours first, then the others'; medians.
    let figures: [Figure]
    let unit: String
    /// What else is to be known of it, in a few words.
    let note: String

    /// What was measured beside something else.
    init(
        _ id: String, _ what: String, against: String, _ pairs: Pairs, unit: String, goal: Double?,
        peer: String = reference, note: String = ""
    ) {
        self.init(
            id, what, against: against, ratio: pairs.ratios.spread, goal: goal,
            figures: [
                Figure(name: "imgbroker", value: pairs.ours.median), Figure(name: peer, value: pairs.theirs.median),
            ], unit: unit, note: note)
    }

    /// What was measured beside a figure that it should not exceed.
    init(_ id: String, _ what: String, _ sample: Sample, allowed: Double, unit: String, note: String = "") {
        self.init(
            id, what, against: "\(rounded(allowed)) \(unit)", ratio: sample.scaled(by: 1 / allowed).spread, goal: 1,
            figures: [Figure(name: "imgbroker", value: sample.median)], unit: unit, note: note)
    }

    /// As given.
    init(
        _ id: String, _ what: String, against: String, ratio: Spread, goal: Double?, figures: [Figure], unit: String,
        note: String = ""
    ) {
        self.id = id
        self.what = what
        self.against = against
        self.ratio = ratio
        self.goal = goal
        self.figures = figures
        self.unit = unit
        self.note = note
    }

    /// Ours, with its unit.
    var measured: String { figures.first.map { "\(rounded($0.value)) \(unit)" } ?? "" }
    /// The others'.
    var references: String {
        figures.dropFirst().map { ($0.name == Self.reference ? "" : $0.name + " ") + "\(rounded($0.value)) \(unit)" }
            .joined(separator: ", ")
    }
    /// The median, and in brackets where the repetitions lie.
    var ratioText: String { "\(rounded(ratio.median)) (\(rounded(ratio.low)) – \(rounded(ratio.high)))" }
    var goalText: String { goal.map { "≤ \(rounded($0))" } ?? "" }
    /// Whether it is as it should be.
    var isWithinGoal: Bool { goal.map { ratio.median <= $0 } ?? true }
    /// Whether everything was measured.
    var isComplete: Bool {
        ([ratio.median, ratio.low, ratio.high] + figures.map(\.value)).allSatisfy(\.isFinite) && !figures.isEmpty
    }
}
