public import IPCProtocol
public import LinuxSystem

/// Why a request of this process failed.
public enum ClientError: Error, CustomStringConvertible {
    /// No broker listens at this path.
    case noBroker(path: String, SystemError)
    /// The connection ended before the reply.
    case connectionLost
    /// The broker has not answered anything for twice the client's `patience`: it is stopped, or hangs.
    case notAnswering
    /// A reply does not follow the protocol.
    case protocolViolation(String)
    /// The image exists, but this process may open no more descriptors. Its lease is released with the next message to
    /// the broker; a later request gets the image again.
    case descriptorLost
    /// The broker refused the request.
    case refused(WireError)
    /// A system call of this process failed.
    case system(SystemError)

    /// Whether no other request over the same connection can succeed.
    package var endsConnection: Bool {
        switch self {
        case .noBroker, .connectionLost, .notAnswering, .protocolViolation: true
        case .descriptorLost, .refused, .system: false
        }
    }

    /// The error in one sentence.
    public var description: String {
        switch self {
        case .noBroker(let path, let error): "no broker answers at \(path) (\(error))"
        case .connectionLost: "the broker closed the connection"
        case .notAnswering: "the broker does not answer: it is stopped, or hangs"
        case .descriptorLost: "this process may open no more descriptors"
        case .protocolViolation(let violation): "the broker does not follow the protocol: \(violation)"
        case .refused(let error): "\(error.code.rawValue): \(error.message)"
        case .system(let error): error.description
        }
    }
}
