package import JSONCoding

// The messages between the broker and its fork server, exchanged for each additional decode worker:
//
//     broker → fork     + 1 descriptor (the new worker's end of its control socket)
//     server → forked   the new worker's process id
//
// The server first sends `ready`, once. The new worker sends the messages of any decode worker (DecodeMessage.swift) on
// its own socket.

/// A message from the broker to its fork server.
package enum ForkOrder: Equatable, Sendable, WorkerMessage {
    /// Forks one more worker; carries its control socket.
    case fork

    package var descriptorCount: Int { 1 }

    package var type: String { "fork" }

    package static let blanks: [ForkOrder] = [.fork]

    package mutating func list(_ fields: inout Fields) {}
}

/// A message from the fork server.
package enum ForkReport: Equatable, Sendable, WorkerMessage {
    /// The server accepts orders.
    case ready
    /// A worker was forked: a child of the broker, with this process id.
    case forked(pid: Int32)

    package var type: String {
        switch self {
        case .ready: "ready"
        case .forked: "forked"
        }
    }

    package static let blanks: [ForkReport] = [.ready, .forked(pid: 0)]

    package mutating func list(_ fields: inout Fields) {
        switch self {
        case .ready: break
        case .forked(let pid):
            self = .forked(pid: Int32(fields.integer("pid", Int(pid), in: 1...Int(Int32.max))))
        }
    }
}
