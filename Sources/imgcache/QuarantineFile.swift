import IPCProtocol
import LinuxSystem

/// The file of what the broker wants to be remembered of pictures that decoders have died on: one message, as it goes
/// over the socket. It is replaced as a whole, and lost with the directory; what is damaged counts as nothing.
struct QuarantineFile {
    static let name = "quarantine"
    /// No list that a broker makes is longer.
    private static let maximumBytes = Frame.maximumLength

    private let directory: String
    private var path: String { "\(directory)/\(Self.name)" }

    init(in directory: CacheDirectory) {
        self.directory = directory.path
    }

    /// What it holds.
    func read() -> [QuarantineRecord] {
        guard let file = try? FileSystem.openUntrusted(path), let size = try? file.size(), size <= Self.maximumBytes
        else { return [] }
        var bytes = [UInt8](repeating: 0, count: size)
        guard let count = unsafe try? bytes.withUnsafeMutableBytes({ unsafe try file.read(into: $0, at: 0) }),
            case .quarantine(let records)? = try? StoreReport(decoding: bytes.prefix(count))
        else { return [] }
        return records
    }

    /// Replaces it. As its loss costs no more than another look at a dangerous picture, a failure is ignored.
    func write(_ records: [QuarantineRecord]) {
        let text = StoreReport.quarantine(records).encoded().dropFirst(Frame.headerLength)
        let temporary = "\(directory)/.tmp-quarantine"
        do {
            try? FileDescriptor.remove(temporary)
            let file = try FileSystem.createNew(temporary, mode: 0o600)
            unsafe try text.withUnsafeBytes { unsafe try file.write($0, at: 0) }
            try FileDescriptor.rename(temporary, to: path)
        } catch {
            try? FileDescriptor.remove(temporary)
        }
    }
}
