import Foundation
import IPCProtocol
import IPCTransport
import ImageBrokerClient
import LinuxSystem
import SystemValues
import WorkerProtocol

/// A broker that runs, with its own workers.
struct BrokerProcess {
    private static let patience = 10_000

    let socket: String
    private let household: Household
    private let child: ChildProcess
    /// Every child has the end of a socket pair.
    private let control: FileDescriptor

    /// Starts the broker at `path`, and waits until it answers and its disk tier is on.
    init(_ path: String, socket: String, cache: String, household: Household) throws {
        self.socket = socket
        self.household = household
        let (own, other) = try UnixSocket.pair()
        control = own
        let arguments = [
            "--workers", "4", "--socket", socket, "--cache-dir", cache, "--allow-address", "127.0.0.0/8",
            "--memory-limit", "1G", "--log-level", "warning",
        ]
        child = try household.start(path, arguments, control: other)
        guard try wait(until: { $0.diskState == "on" }) else { throw DemoFailure("the broker does not answer") }
    }

    /// The broker's figures.
    func stats() throws -> StatsReport { try ImageBroker(path: socket).stats() }

    /// Waits until nothing is under way any more; what the disk tier was given is on disk then.
    func waitUntilIdle() throws {
        guard try wait(until: { $0[.queued] == 0 && $0[.running] == 0 }) else {
            throw DemoFailure("the broker does not come to rest")
        }
    }

    /// Asks it to end, and waits for that.
    func end() throws {
        child.send(SignalNumber.terminate)
        guard household.waitForEnd(of: child, milliseconds: 7000) else {
            throw DemoFailure("the broker did not end well")
        }
        if CurrentProcess.exists(socket) { throw DemoFailure("the broker left its socket behind") }
        withExtendedLifetime(control) {}
    }

    private func wait(until isTrue: (StatsReport) -> Bool) throws -> Bool {
        let deadline = Instant.now.adding(milliseconds: Self.patience)
        while Instant.now < deadline {
            if let stats = try? stats(), isTrue(stats) { return true }
            if child.waitForExit(milliseconds: 20) != nil { throw DemoFailure("the broker has ended") }
        }
        return false
    }
}

/// Processes that all want the same.
struct Crowd {
    private struct Member {
        let process: ChildProcess
        let channel: FrameChannel
    }

    private let members: [Member]
    private let household: Household

    /// Starts `count` of them, each with the wishes of the file `list`, and waits until all are connected.
    init(_ count: Int, program: String, socket: String, list: String, household: Household) throws {
        self.household = household
        members = try (0..<count).map { _ in
            let (end, control) = try UnixSocket.pair()
            let process = try household.start(program, ["--client-of", socket, "--list", list], control: control)
            return Member(process: process, channel: FrameChannel(socket: end))
        }
        for member in members {
            guard try member.channel.receiveMessage(ClientReport.self)?.0 == .ready else {
                throw DemoFailure("a client process did not start well")
            }
        }
    }

    /// Lets all go at once, and waits for what they report: for each of the `count` wishes, what came of it.
    func ask(_ count: Int) throws -> [WishTally] {
        for member in members { try member.channel.sendMessage(ClientOrder.start) }
        var tallies = [WishTally](repeating: WishTally(), count: count)
        for member in members { try collect(from: member, into: &tallies) }
        return tallies
    }

    private func collect(from member: Member, into tallies: inout [WishTally]) throws {
        while let (report, _) = try member.channel.receiveMessage(ClientReport.self) {
            switch report {
            case .ready: continue
            case .result(let result):
                guard tallies.indices.contains(result.index) else { throw DemoFailure("a client made up a picture") }
                tallies[result.index].results.append(result)
            case .done: return
            }
        }
        throw DemoFailure("a client process ended early")
    }

    /// What the kernel says of the memory that they map.
    var maps: MemoryMaps {
        var maps = MemoryMaps()
        for member in members { maps.add(member.process.pid) }
        return maps
    }

    /// Lets them end.
    func end() throws {
        for member in members { try member.channel.sendMessage(ClientOrder.end) }
        for member in members where !household.waitForEnd(of: member.process, milliseconds: 5000) {
            throw DemoFailure("a client process did not end well")
        }
    }
}
