internal import Glibc
internal import IPCTransport
internal import LinuxSystem
internal import Sandbox
internal import SystemValues
import WorkerProtocol
internal import WorkerRuntime

/// The options of the process of the shared tier, and what it acquires before the sandbox.
struct TierProgram: WorkerProgram {
    let name = "imgtier"

    /// `--server`: the servers by their names, in any order.
    private(set) var servers: [ServerName] = []
    /// `--key`: descriptor 4 has the key by which records are signed.
    private(set) var hasKey = false

    mutating func readOption(_ name: String, from arguments: inout WorkerArguments) throws(UsageError) -> Bool {
        switch name {
        case "--server": servers.append(try arguments.value { ServerName($0) })
        case "--key": hasKey = true
        default: return false
        }
        return true
    }

    func validate() throws(UsageError) {
        if servers.isEmpty { throw UsageError("--server is required") }
    }

    private static let keyDescriptor: Int32 = 4

    struct NoMemory: Error, CustomStringConvertible {
        let description = "there is no memory for the ring of servers"
    }

    func makeService(channel: FrameChannel, log: Log) throws -> TierLoop {
        let key = hasKey ? Array(try FileDescriptor(owning: Self.keyDescriptor).readToEnd().utf8) : nil
        guard let ring = ServerRing(servers) else { throw NoMemory() }
        // The sandbox permits no name server.
        let connections = servers.map { server in
            let address = Self.address(of: server.host)
            if address == nil {
                log.warning(.system, "the address of \(server.host) is not known; it is looked for again in 30 s")
            }
            return TierConnection(server, address: address)
        }
        return try TierLoop(
            channel: channel, tier: Tier(ring: ring, connections: connections, envelope: RecordEnvelope(key: key)),
            ports: Set(servers.map(\.port)).sorted())
    }

    /// The numeric address of a host, IPv4 before IPv6; nil when it has none.
    private static func address(of host: String) -> String? {
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard unsafe getaddrinfo(host, nil, &hints, &found) == 0 else { return nil }
        defer { unsafe freeaddrinfo(found) }
        var chosen = unsafe found
        while let each = unsafe chosen, unsafe each.pointee.ai_family != AF_INET {
            unsafe chosen = unsafe each.pointee.ai_next
        }
        guard let chosen = unsafe chosen ?? found else { return nil }
        return unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
            let status = unsafe getnameinfo(
                chosen.pointee.ai_addr, chosen.pointee.ai_addrlen, text.baseAddress, socklen_t(text.count), nil, 0,
                NI_NUMERICHOST)
            return status == 0 ? unsafe text.baseAddress.map { unsafe String(cString: $0) } : nil
        }
    }
}

extension TierLoop: WorkerService {
    var sandboxPolicy: SandboxPolicy { .tier(ports: ports) }

    /// Nothing is done once only: the first command makes its server's connection.
    func warmUp() {}

    func ready(in report: SandboxReport) -> TierReport { .ready(report) }
}
