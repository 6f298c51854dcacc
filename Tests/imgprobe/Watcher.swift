internal import Glibc
internal import ImageBrokerClient

/// A client that requests one image repeatedly and keeps it, while other processes change the image.
///
///     imgprobe watch SOCKET URL FILE
///
/// The image's first pixel is its version. The file has three numbers of eight bytes: the oldest version that a request
/// may still return (or an order), the version returned last, and the number of requests. The status is 0 on success.
enum Watcher {
    /// Orders in the place of a version.
    static let end = -1
    static let brokerIsDead = -2

    static func run(_ arguments: [String]) -> Never {
        guard arguments.count == 5, let broker = try? ImageBroker(path: arguments[2], keeping: .init()) else {
            exit(126)
        }
        let file = unsafe open(arguments[4], O_RDWR | O_CLOEXEC)
        var seen = 0
        while true {
            let oldest = read(file)
            if oldest == end { exit(0) }
            do throws(ClientError) {
                let image = try broker.get(arguments[3])
                if oldest == brokerIsDead { exit(3) }
                let version = image.withBytes { unsafe $0.withUnsafeBytes { unsafe Int($0[0]) | Int($0[1]) << 8 } }
                if version < oldest { exit(1) }
                seen += 1
                write(version, file, at: 8)
                write(seen, file, at: 16)
            } catch {
                guard case .connectionLost = error else { exit(4) }
                if oldest == brokerIsDead { exit(0) }
                usleep(1000)
            }
        }
    }

    private static func read(_ file: Int32) -> Int {
        var value = 0
        return unsafe pread(file, &value, 8, 0) == 8 ? value : end
    }

    private static func write(_ value: Int, _ file: Int32, at offset: Int) {
        var value = value
        if unsafe pwrite(file, &value, 8, off_t(offset)) != 8 { exit(126) }
    }
}
