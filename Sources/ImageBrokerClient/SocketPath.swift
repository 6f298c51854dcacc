internal import LinuxSystem

/// Where brokers listen.
public enum SocketPath {
    /// The system's broker.
    public static let system = "/run/imgbroker.sock"

    /// A user's own broker; nil without `$XDG_RUNTIME_DIR`.
    public static var user: String? {
        guard let directory = CurrentProcess.environment("XDG_RUNTIME_DIR"), !directory.isEmpty else { return nil }
        return directory + "/imgbroker.sock"
    }

    /// `$IMGBROKER_SOCKET`; nil when it is not set.
    public static var environment: String? {
        guard let path = CurrentProcess.environment("IMGBROKER_SOCKET"), !path.isEmpty else { return nil }
        return path
    }

    /// Where a client looks when nobody tells it: `$IMGBROKER_SOCKET`, then the user's broker if its socket exists, then
    /// the system's.
    public static var forClient: String {
        if let environment { return environment }
        if let user, CurrentProcess.exists(user) { return user }
        return system
    }
}
