import BrokerHarness
import Foundation

extension LineProcess {
    /// A process that runs `Peers/peer.py`; nil where there is no Python environment with the peers.
    convenience init?(python peers: Peers, _ arguments: [String]) throws {
        guard let python = peers.python else { return nil }
        let script = URL(filePath: #filePath).appending(path: "../../../Peers/peer.py").standardized
        try self.init(python, [script.path] + arguments)
    }

    /// Milliseconds of one thumbnail, asked of a process that serves.
    func thumbnail(_ library: String, path: String, side: Int) throws -> Double {
        write("thumbnail \(library) \(path) \(side)")
        guard let time = line().flatMap(Double.init) else { throw Failure("\(library) makes no thumbnail") }
        return time
    }
}

extension Peers {
    /// What peers there are, for the page.
    var versions: [String] {
        let list = try? String(contentsOfFile: folder + "/versions", encoding: .utf8)
        var lines = list?.split(separator: "\n").map(String.init) ?? []
        if let python = (try? LineProcess(python: self, ["versions"])) ?? nil {
            while let line = python.line() { lines.append(line) }
        }
        return lines
    }
}
