import BrokerHarness
import Foundation

extension LineProcess {
    /// Starts a script of `Peers`; nil without a Python environment with the peers.
    convenience init?(python peers: Peers, script: String = "peer.py", _ arguments: [String]) throws {
        guard let python = peers.python else { return nil }
        try self.init(python, [Peers.script(script)] + arguments)
    }

    /// Requests a thumbnail from a serving process. Returns its time in milliseconds.
    func thumbnail(_ library: String, path: String, side: Int) throws -> Double {
        write("thumbnail \(library) \(path) \(side)")
        guard let time = line().flatMap(Double.init) else { throw Failure("\(library) makes no thumbnail") }
        return time
    }
}

extension Peers {
    /// The path of a script of `Peers`.
    static func script(_ name: String) -> String { packageFolder + "/Benchmarks/Peers/" + name }

    /// The installed peers with their versions, for the page.
    var versions: [String] {
        let list = try? String(contentsOfFile: folder + "/versions", encoding: .utf8)
        var lines = list?.split(separator: "\n").map(String.init) ?? []
        if let python = (try? LineProcess(python: self, ["versions"])) ?? nil {
            while let line = python.line() { lines.append(line) }
        }
        return lines
    }
}
