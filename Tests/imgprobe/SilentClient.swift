internal import CProbe
internal import Glibc
internal import IPCProtocol
internal import ImageBrokerClient

/// A client that asks for pictures that it keeps, when it may make no system call any more.
///
///     imgprobe hits SOCKET URL [call]
///
/// The status is 0 when each was what it had before. A system call ends it by SIGKILL; `call` makes one, so that a test can see
/// that.
enum SilentClient {
    private static let hits = 10_000

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
            // The first is loaded, the second is a hit and kept; the others are for the heap, and what is made when it is
            // first used.
            for options in kinds { for _ in 0..<1000 { _ = try broker.get(url, options) } }
            let pictures = try kinds.map { try broker.get(url, $0) }
            // Once a second the broker is told of hits: now, and so not in what follows.
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
