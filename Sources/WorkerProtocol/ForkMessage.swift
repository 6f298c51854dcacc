package import JSONCoding

// What the broker and its fork server say to each other, each time one more decode worker is wanted:
//
//     broker → fork     + 1 descriptor (the new worker's end of its control socket)
//     server → forked   the new worker's process id
//
// The server says `ready` once, before. The new worker says what any other does (DecodeMessage.swift), on its own socket.

/// What the broker tells its fork server.
package enum ForkOrder: Equatable, Sendable {
    /// Make one more worker; comes with its control socket.
    case fork
}

/// What the fork server reports.
package enum ForkReport: Equatable, Sendable {
    /// Orders can come.
    case ready
    /// A worker was made: a child of the broker, with this process id.
    case forked(pid: Int32)
}

extension ForkOrder: WorkerMessage {
    package var descriptorCount: Int { 1 }

    package var type: String { "fork" }

    package func writeMembers(to writer: inout JSONWriter) {}

    package init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        guard type == "fork" else { return nil }
        self = .fork
    }
}

extension ForkReport: WorkerMessage {
    package var descriptorCount: Int { 0 }

    package var type: String {
        switch self {
        case .ready: "ready"
        case .forked: "forked"
        }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        if case .forked(let pid) = self { writer.member("pid", Int(pid)) }
    }

    package init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        var pid: Int?
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "pid": pid = try reader.integer(name, in: 1...Int(Int32.max))
            default: try reader.skip()
            }
        }
        switch (type, pid) {
        case ("ready", _): self = .ready
        case ("forked", let pid?): self = .forked(pid: Int32(pid))
        default: return nil
        }
    }
}
