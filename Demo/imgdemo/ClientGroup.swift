import BrokerHarness
import Foundation

/// Client processes that send the same requests.
struct ClientGroup {
    private let processes: [LineProcess]

    /// Starts `count` processes and waits until all are connected.
    init(_ count: Int, program: String, socket: String) throws {
        processes = try (0..<count).map { _ in try LineProcess(program, ["client", socket]) }
        for process in processes where process.line() != "ready" {
            throw HarnessFailure("a client process did not start")
        }
    }

    /// Sends `requests` from all processes at once; returns for each request the results of all processes.
    func send(_ requests: [ImageRequest]) throws -> [[ImageResult]] {
        let line = String(decoding: try JSONEncoder().encode(requests), as: UTF8.self)
        for process in processes { process.write(line) }
        let results = try processes.map { process in
            guard let line = process.line() else { throw HarnessFailure("a client process exited early") }
            return try JSONDecoder().decode([ImageResult].self, from: Data(line.utf8))
        }
        return requests.indices.map { index in results.map { $0[index] } }
    }

    /// The size of the memfd pages that the processes map, in bytes: counted in every process that maps them
    /// (`resident`), and divided among those (`proportional`), from `/proc/PID/smaps`. Zero where that may not be read.
    var mappedBytes: (resident: Int, proportional: Int) {
        var bytes = (resident: 0, proportional: 0)
        for process in processes {
            let maps = (try? String(contentsOfFile: "/proc/\(process.pid)/smaps", encoding: .utf8)) ?? ""
            var isMemfd = false
            for line in maps.split(separator: "\n") {
                let words = line.split(separator: " ")
                // The first line of a mapping starts with its addresses, each other one with a name and a colon.
                if words[0].contains("-") {
                    isMemfd = line.contains("/memfd:")
                } else if isMemfd, words.count == 3, let kibibytes = Int(words[1]) {
                    if words[0] == "Rss:" { bytes.resident += kibibytes << 10 }
                    if words[0] == "Pss:" { bytes.proportional += kibibytes << 10 }
                }
            }
        }
        return bytes
    }

    /// Waits until all processes have released their images and exited.
    func stop() {
        for process in processes { process.stop() }
    }
}
