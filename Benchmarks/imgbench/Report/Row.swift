/// A median with the range of its repetitions.
struct Spread: Codable {
    let median: Double
    let low: Double
    let high: Double
    /// The number of repetitions; nil in figures of earlier versions, which did not note it.
    var count: Int?
}

/// A row of the table: a figure, its reference and its goal.
struct Row: Codable {
    /// A figure in the row's unit, with the name of its subject.
    struct Figure: Codable {
        let name: String
        let value: Double
    }

    /// The name of a figure that `against` describes.
    static let reference = "reference"

    /// The benchmark's name, a dot and the row's name.
    let id: String
    let what: String
    let against: String
    /// Our figure divided by the reference of the same round.
    let ratio: Spread
    /// The maximum of the ratio; nil for a row without a goal.
    let goal: Double?
    /// The medians: ours first, then the references.
    let figures: [Figure]
    let unit: String
    /// A remark.
    let note: String

    /// Creates a row of paired measurements.
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

    /// Creates a row of a measurement with a fixed maximum.
    init(_ id: String, _ what: String, _ sample: Sample, allowed: Double, unit: String, note: String = "") {
        self.init(
            id, what, against: "\(rounded(allowed)) \(unit)", ratio: sample.scaled(by: 1 / allowed).spread, goal: 1,
            figures: [Figure(name: "imgbroker", value: sample.median)], unit: unit, note: note)
    }

    /// Creates a row from its parts.
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

    /// Whether the figure is compared with a fixed amount of our own choice instead of another program.
    var isBudget: Bool { figures.count == 1 }
    /// Our figure, with its unit.
    var measured: String { figures.first.map { "\(rounded($0.value)) \(unit)" } ?? "" }
    /// The other figures.
    var references: String {
        figures.dropFirst().map { ($0.name == Self.reference ? "" : $0.name + " ") + "\(rounded($0.value)) \(unit)" }
            .joined(separator: ", ")
    }
    /// The median, with the range of the repetitions in brackets if there are several.
    var ratioText: String {
        let median = rounded(ratio.median)
        return ratio.count == 1 ? median : "\(median) (\(rounded(ratio.low)) – \(rounded(ratio.high)))"
    }
    /// The number of repetitions, if known.
    var countText: String { ratio.count.map { "\($0)" } ?? "" }
    var goalText: String { goal.map { "≤ \(rounded($0))" } ?? "" }
    /// Whether the ratio is within the goal.
    var isWithinGoal: Bool { goal.map { ratio.median <= $0 } ?? true }
    /// Whether all figures were measured.
    var isComplete: Bool {
        ([ratio.median, ratio.low, ratio.high] + figures.map(\.value)).allSatisfy(\.isFinite) && !figures.isEmpty
    }
}
