public import IPCProtocol
public import LinuxSystem

/// Why a request of this process was not answered with what it asked for.
public enum ClientError: Error, CustomStringConvertible {
    /// Nobody listens at this path.
    case noBroker(path: String, SystemError)
    /// The connection ended before the answer came.
    case connectionLost
    /// What came does not follow the protocol.
    case protocolViolation(String)
    /// The picture is there, but this process may open no more descriptors. With the next message to the broker its lease
    /// is given back; asked for again, it comes again.
    case descriptorLost
    /// The broker's own answer.
    case refused(WireError)
    /// A system call of this process failed.
    case system(SystemError)

    /// What happened, in one sentence.
    public var description: String {
        switch self {
        case .noBroker(let path, let error): "no broker answers at \(path) (\(error))"
        case .connectionLost: "the broker closed the connection"
        case .descriptorLost: "this process may open no more descriptors"
        case .protocolViolation(let what): "the broker does not follow the protocol: \(what)"
        case .refused(let error): "\(error.code.rawValue): \(error.message)"
        case .system(let error): error.description
        }
    }
}
