internal import Glibc
internal import IPCProtocol
internal import ImageBrokerClient
internal import LinuxSystem

/// A client that asks for one picture again and again, keeping it, while others do what may change it: that of a test in
/// which several processes look at one broker.
///
///     imgprobe watch SOCKET URL FILE
///
/// The picture's first pixel says which version it is. The file holds numbers of eight bytes: the oldest version that may
/// still be seen by whoever asks from now on (or an order), the version that was seen last, and how often one was seen.
/// The status is 0 when all was well.
enum Watcher {
    /// Orders in place of a version.
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
