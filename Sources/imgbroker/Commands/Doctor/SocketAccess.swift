/// The access rights of a socket: its file, and the directories above it, as far as this user may see them.
struct SocketAccess {
    struct File {
        var path: String
        var owner, group: String
        var gid: UInt32
        /// The bits that `chmod` sets.
        var mode: UInt32

        /// "660 imgbroker:imgbroker".
        var rights: String { "\(String(mode & 0o7777, radix: 8)) \(owner):\(group)" }
    }

    /// The users that the socket's mode admits, besides root.
    private enum Audience { case all, group, owner }

    let path: String
    /// The socket; nil if a directory hides it.
    var socket: File?
    /// The directories above it, the outermost one first, up to the first that this user may not search.
    var directories: [File]
    var members: [String] = []

    private func audience(of socket: File) -> Audience {
        socket.mode & 0o002 != 0 ? .all : socket.mode & 0o020 != 0 ? .group : .owner
    }

    /// The directories above a path, the outermost one first.
    static func directories(of path: String) -> [String] {
        var directories: [String] = path.hasPrefix("/") ? ["/"] : ["."]
        for (index, character) in zip(path.indices, path) where character == "/" && index != path.startIndex {
            directories.append(String(path[..<index]))
        }
        return directories
    }

    // MARK: What the doctor says

    func finding(for configuration: Configuration) -> Finding {
        guard let socket else {
            let hiding = directories.last.map { "\($0.path) (\($0.rights))" } ?? "a directory"
            return Finding("socket", "\(path) is behind \(hiding)", "chmod o+x, or --socket in another place")
        }
        let admitted =
            switch audience(of: socket) {
            case .all: "every user may connect"
            case .group where members.isEmpty:
                "\(socket.owner) and the group \(socket.group), which has no further members, may connect"
            case .group:
                "\(socket.owner) and the group \(socket.group) (\(members.joined(separator: ", "))) may connect"
            case .owner: "\(socket.owner) alone may connect"
            }
        // A directory in which any user may put another socket in the place of this one.
        let open = directories.first { $0.mode & 0o1002 == 0o002 }
        let danger = open.map { "any user may replace the socket: chmod o-w \($0.path)" }
        return Finding(
            "socket", "\(path) (\(socket.rights)): \(admitted)",
            difference(from: configuration, socket) ?? danger ?? obstacle(for: socket))
    }

    /// Returns the remedy for a user whom the socket refuses.
    func remedy(for user: String) -> String {
        guard let socket else {
            return "let users pass \(directories.last?.path ?? path): chmod o+x, or --socket in another place"
        }
        if let obstacle = obstacle(for: socket) { return obstacle }
        switch audience(of: socket) {
        case .all: return "a security module forbids it: see the kernel's log"
        case .group where socket.gid == 0:
            return "its group is root's: start the broker with --socket-group GROUP, whose members may connect then"
        case .group where members.contains(user):
            return "log in again: \(user) is a member of \(socket.group), and this session began before"
        case .group:
            return "become a member of the socket's group: usermod -aG \(socket.group) \(user), and log in again"
        case .owner:
            return
                "it is for \(socket.owner) alone: socket-group and socket-mode admit others, or use a broker of your own"
        }
    }

    // MARK: Faults

    private func difference(from configuration: Configuration, _ socket: File) -> String? {
        var wrong: [String] = []
        if let gid = configuration.socketGroup, gid != socket.gid { wrong.append("socket-group is another group") }
        if let mode = configuration.socketMode, mode != socket.mode & 0o777 {
            wrong.append("socket-mode is \(String(mode, radix: 8))")
        }
        if wrong.isEmpty { return nil }
        return wrong.joined(separator: ", ")
            + ": restart the broker; of a socket that systemd has made: systemctl edit imgbroker.socket"
    }

    /// Returns the remedy for a directory that admitted users cannot search; nil without one.
    private func obstacle(for socket: File) -> String? {
        let audience = audience(of: socket)
        let obstacle = directories.first { directory in
            if directory.mode & 0o001 != 0 { return false }
            switch audience {
            case .all: return true
            case .group: return directory.mode & 0o010 == 0 || directory.group != socket.group
            // root passes everywhere.
            case .owner:
                return socket.owner != "root" && (directory.mode & 0o100 == 0 || directory.owner != socket.owner)
            }
        }
        return obstacle.map {
            "users of the socket cannot search \($0.path) (\($0.rights)): chmod o+x \($0.path), or --socket in another place"
        }
    }
}
