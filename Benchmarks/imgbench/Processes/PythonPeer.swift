import BrokerHarness
import Foundation

extension LineProcess {
    /// Starts a script of `Peers`; nil without a Python environment with the peers.
    convenience init?(python peers: Peers, script: String = "peer.py", _ arguments: [String]) throws {
        guard let python = peers.python else { return nil }
        try self.init(python, [Peers.script(script)] + arguments)
    }

    /// Starts a script of `Peers` where there is a Python environment.
    static func inPython(_ peers: Peers, script: String = "peer.py", _ arguments: [String]) throws -> LineProcess {
        guard let process = try LineProcess(python: peers, script: script, arguments) else {
            throw Failure("no Python")
        }
        return process
    }

    /// Requests a thumbnail from a serving process. Returns its time in milliseconds.
    func thumbnail(_ library: String, path: String, side: Int) throws -> Double {
        write("thumbnail \(library) \(path) \(side)")
        return try number("\(library) makes no thumbnail")
    }

    /// Reads the number at the start of the next line; without one, the process has failed.
    func number(_ failure: String) throws -> Double { try Self.number(in: line(), failure) }

    /// Returns the number at the start of a line that a process has printed; without one, it has failed.
    static func number(in line: String?, _ failure: String) throws -> Double {
        guard let number = line?.split(separator: " ").first.flatMap({ Double($0) }) else { throw Failure(failure) }
        return number
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
