internal import LinuxSystem

/// The paths of the sockets at which brokers listen.
public enum SocketPath {
    /// The path of the system's broker.
    public static let system = "/run/imgbroker.sock"

    /// The path of the user's own broker; nil without `$XDG_RUNTIME_DIR`.
    public static var user: String? {
        guard let directory = CurrentProcess.environment("XDG_RUNTIME_DIR"), !directory.isEmpty else { return nil }
        return directory + "/imgbroker.sock"
    }

    /// The value of `$IMGBROKER_SOCKET`; nil when it is not set or empty.
    public static var environment: String? {
        guard let path = CurrentProcess.environment("IMGBROKER_SOCKET"), !path.isEmpty else { return nil }
        return path
    }

    /// The default path for clients: `$IMGBROKER_SOCKET`, else that of the user's broker if it exists, else that of the
    /// system's.
    public static var forClient: String {
        if let environment { return environment }
        if let user, CurrentProcess.exists(user) { return user }
        return system
    }
}
