import Foundation

/// Alternatives to the broker, installed in a folder by `scripts/bootstrap.sh --for-benchmarks`. A missing one has no
/// rows.
struct Peers {
    /// The folder, with a Python environment in `venv` and unpacked servers in `root`.
    let folder: String

    init(folder: String) { self.folder = URL(filePath: folder).absoluteURL.standardized.path }

    var python: String? { program("venv/bin/python3") }
    var nginx: String? { program("root/usr/sbin/nginx") }
    var memcached: String? { program("root/usr/bin/memcached") }
    var redis: String? { program("root/usr/bin/redis-server") }

    /// The folder of nginx's loadable modules.
    var nginxModules: String { folder + "/root/usr/lib/nginx/modules" }

    private func program(_ path: String) -> String? {
        let path = "\(folder)/\(path)"
        return FileManager.default.isExecutableFile(atPath: path) ? path : nil
    }
}

/// The path of a program of this package.
func ownProgram(_ name: String) -> String {
    URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: name).path
}
