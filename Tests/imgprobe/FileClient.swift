internal import Glibc
internal import ImageBrokerClient

/// A client that loads the image in a local file, by waiting or with the client for tasks.
///
///     imgprobe load SOCKET FILE waiting|tasks
///
/// The status is 0 when the image has come.
enum FileClient {
    static func run(_ arguments: [String]) -> Never {
        guard arguments.count == 5 else { exit(126) }
        let (socket, path) = (arguments[2], arguments[3])
        if arguments[4] == "waiting" {
            let image = try? ImageBroker(path: socket).get(path: path)
            exit(image == nil ? 1 : 0)
        }
        Task.detached {
            let broker = AsyncImageBroker(path: socket)
            let image = try? await broker.image(atPath: path)
            exit(image == nil ? 1 : 0)
        }
        while true { pause() }
    }
}
