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

    /// The thumbnail service of Debian's package, which runs only from its place.
    var tumbler: String? {
        let libraries = "/usr/lib"
        return ((try? FileManager.default.contentsOfDirectory(atPath: libraries)) ?? [])
            .map { "\(libraries)/\($0)/tumbler-1/tumblerd" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    /// The folder of nginx's loadable modules.
    var nginxModules: String { folder + "/root/usr/lib/nginx/modules" }

    private func program(_ path: String) -> String? {
        let path = "\(folder)/\(path)"
        return FileManager.default.isExecutableFile(atPath: path) ? path : nil
    }
}

/// The folder of this package.
let packageFolder = URL(filePath: #filePath).appending(path: "../../../..").standardized.path

/// Builds a folder of the package by its Makefile, as far as its libraries are installed. Returns whether that has
/// succeeded.
@discardableResult
func make(_ source: String, _ options: [String] = [], into folder: String) -> Bool {
    let words = ["make", "-s", "-C", "\(packageFolder)/\(source)", "BUILD=\(folder)"] + options
    guard let make = try? Process.run(URL(filePath: "/usr/bin/env"), arguments: words) else { return false }
    make.waitUntilExit()
    return make.terminationStatus == 0
}

/// The path of a program of this package.
func ownProgram(_ name: String) -> String {
    URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: name).path
}
