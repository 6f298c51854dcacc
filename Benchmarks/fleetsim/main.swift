// fleetsim: many brokers with one shared tier, as a model. `fleetsim` prints the tables of docs/fleet.md.

import Glibc

func power(_ base: Double, _ exponent: Double) -> Double { pow(base, exponent) }
func exponential(_ mean: Double, _ unit: Double) -> Double { -mean * log(1 - unit) }

func text(_ value: Double, _ digits: Int = 0) -> String {
    let scale = pow(10.0, Double(digits))
    let rounded = (value * scale).rounded() / scale
    if digits == 0 { return "\(Int(rounded))" }
    let parts = "\(rounded)".split(separator: ".")
    return parts[0] + "." + (parts.count > 1 ? String(parts[1].prefix(digits)) : "0")
}

func row(_ cells: [String]) { print("| " + cells.joined(separator: " | ") + " |") }

func header(_ cells: [String]) {
    row(cells)
    row(cells.map { _ in "---" })
}

/// Three brokers, two nodes, 500 cold images on all of them at once: what FleetTests measures.
func printSmallCase() {
    print("\n## The measured case\n")
    header(["origin latency", "origin requests", "shared hits", "polls for each miss of a loser", "p50", "p99"])
    for latency in [0.0005, 0.02, 0.1] {
        var model = Model()
        (model.images, model.originLatency) = (500, latency)
        var simulation = Simulation(model)
        simulation.runCold(within: 0.5)
        let figures = simulation.figures
        row([
            "\(text(latency * 1000, 1)) ms", "\(figures.originRequests)", "\(figures.sharedHits)",
            text(Double(figures.polls) / Double(max(1, figures.sharedHits)), 2),
            "\(text(figures.latency(0.5), 1)) ms", "\(text(figures.latency(0.99), 1)) ms",
        ])
    }
}

/// Ever more hosts, with a node for each 250 hosts.
func printScale() {
    print("\n## More hosts\n")
    header([
        "hosts", "nodes", "requests", "origin without tier", "origin with tier", "distinct", "commands/s, busiest node",
        "MB/s, busiest node", "p50", "p99", "p99.9",
    ])
    for hosts in [3, 30, 300, 3000, 10_000] {
        var model = Model()
        model.hosts = hosts
        model.nodes = max(2, hosts / 250)
        var alone = model
        alone.isShared = false
        var (with, without) = (Simulation(model), Simulation(alone))
        with.run()
        without.run()
        let (figures, other) = (with.figures, without.figures)
        row([
            "\(hosts)", "\(model.nodes)", "\(figures.requests)", "\(other.originRequests)", "\(figures.originRequests)",
            "\(figures.distinct)", text(Double(figures.commands.max() ?? 0) / model.duration),
            text(Double(figures.bytes.max() ?? 0) / model.duration / 1e6, 1), "\(text(figures.latency(0.5), 1)) ms",
            "\(text(figures.latency(0.99), 1)) ms", "\(text(figures.latency(0.999), 1)) ms",
        ])
    }
}

/// A node that is lost in the middle of a run.
func printLoss() {
    print("\n## A lost node\n")
    header([
        "hosts", "nodes", "origin requests", "with a node lost after 30 s", "for its keys", "p99.9 before",
        "p99.9 with it",
    ])
    for hosts in [30, 300, 3000, 10_000] {
        var model = Model()
        model.hosts = hosts
        model.nodes = max(2, hosts / 250)
        var broken = model
        broken.lostAt = 30
        var (whole, lost) = (Simulation(model), Simulation(broken))
        whole.run()
        lost.run()
        row([
            "\(hosts)", "\(model.nodes)", "\(whole.figures.originRequests)", "\(lost.figures.originRequests)",
            "\(lost.figures.originForLost)", "\(text(whole.figures.latency(0.999), 1)) ms",
            "\(text(lost.figures.latency(0.999), 1)) ms",
        ])
    }
}

let words = CommandLine.arguments.dropFirst()
if words.isEmpty || words.contains("small") { printSmallCase() }
if words.isEmpty || words.contains("scale") { printScale() }
if words.isEmpty || words.contains("lost") { printLoss() }
