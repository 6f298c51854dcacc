internal import CProbe
internal import Glibc
internal import IPCProtocol
internal import ImageBrokerClient

/// A client that requests images that it keeps, after it has given up all system calls.
///
///     imgprobe hits SOCKET URL [call]
///
/// The status is 0 when each image was the one it had before. A system call kills it with SIGKILL; `call` makes one, so
/// that a test can see that.
enum SilentClient {
    /// They take far less than the second after which the library reports them, also on a busy machine.
    private static let hits = 1000

    static func run(_ arguments: [String]) -> Never {
        guard arguments.count >= 4, let broker = try? ImageBroker(path: arguments[2], keeping: .init()) else {
            exit(126)
        }
        let url = arguments[3]
        var small = GetOptions()
        small.variant.width = 8
        var named = GetOptions()
        named.cacheKey = "a name"
        let kinds = [GetOptions(), small, named]
        do {
            // The first request loads the image, and the second is a hit that keeps it. The others allocate everything
            // that is allocated on first use.
            for options in kinds { for _ in 0..<1000 { _ = try broker.get(url, options) } }
            let pictures = try kinds.map { try broker.get(url, $0) }
            // Hits are reported to the broker once a second. It happens here, so that it does not happen during the
            // measured requests.
            sleep(1)
            try broker.returnLeases()
            for (options, picture) in zip(kinds, pictures) where try broker.get(url, options) !== picture { exit(2) }
            guard cprobe_forbid_calls() == 0 else { exit(125) }
            for _ in 0..<hits {
                for kind in kinds.indices where try broker.get(url, kinds[kind]) !== pictures[kind] { cprobe_exit(1) }
            }
            if arguments.count > 4 { cprobe_call() }
            cprobe_exit(0)
        } catch {
            cprobe_exit(3)
        }
    }
}
