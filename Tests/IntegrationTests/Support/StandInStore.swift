/// Stands in for a service manager with a descriptor store: it keeps what a broker stores, and hands it to the next
/// one.
final class StandInStore {
    let path: String
    private let socket: FileDescriptor
    var stored: [(name: String, descriptor: FileDescriptor)] = []

    init(in directory: TemporaryDirectory) throws {
        path = directory.file("notify")
        socket = try datagramSocket(at: path)
        try socket.setNonBlocking()
    }

    /// Takes the messages that have come.
    func update() throws {
        try unsafe withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 16) { buffer in
            while case .bytes(let count, let descriptors, _) = try unsafe UnixSocket.receive(into: buffer, from: socket)
            {
                let lines = unsafe String(decoding: buffer[..<count], as: UTF8.self).split(separator: "\n")
                guard let name = lines.first(where: { $0.hasPrefix("FDNAME=") })?.dropFirst(7) else { continue }
                if lines.contains("FDSTOREREMOVE=1") { stored.removeAll { $0.name == name } }
                guard lines.contains("FDSTORE=1"), let file = descriptors.first else { continue }
                let inode = try file.inode()
                let isKnown = try stored.contains { try $0.name == name && $0.descriptor.inode() == inode }
                if !isKnown { stored.append((String(name), file)) }
            }
        }
    }

    /// The names in the store that begin so.
    func names(_ prefix: String) -> [String] { stored.map(\.name).filter { $0.hasPrefix("imgbroker-" + prefix) } }

    /// The environment of a broker that stores, and is handed what was stored.
    var environment: [String] {
        let pid = getpid()
        let items = stored.map { "\(pid) \($0.descriptor.raw) \($0.name)" }.joined(separator: ",")
        return ["NOTIFY_SOCKET=\(path)", "FDSTORE=64", "HANDOVER=\(items)"]
    }

    /// Starts the program with the descriptors of `HANDOVER`.
    static let preparation: String = {
        let script = """
            import os, sys
            items = [i.split(" ") for i in os.environ.pop("HANDOVER").split(",") if i]
            files = [os.open("/proc/%s/fd/%s" % (i[0], i[1]), os.O_RDWR) for i in items]
            files = [os.dup2(f, 200 + n) for n, f in enumerate(files)]
            os.closerange(3, 200)
            for n, f in enumerate(files): os.dup2(f, 3 + n)
            os.closerange(200, 400)
            if items:
                os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(items)))
                os.environ.update(LISTEN_FDNAMES=":".join(i[2] for i in items))
            os.execv(sys.argv[2], sys.argv[2:])
            """
        return "exec python3 -c '\(script)' "
    }()
}

/// A socket for datagrams that is bound to `path`.
func datagramSocket(at path: String) throws -> FileDescriptor {
    let socket = FileDescriptor(owning: Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0))
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
    let status = unsafe withUnsafePointer(to: &address) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            unsafe bind(socket.raw, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
    guard status == 0 else { throw SystemError("bind") }
    return socket
}
