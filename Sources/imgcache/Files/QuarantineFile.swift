import DiskRecords
import IPCProtocol
import LinuxSystem
import WorkerProtocol

/// The file of the broker's quarantine, the images that decoders crashed on: the JSON text of one message. It is
/// replaced as a whole, and lost with the directory. A damaged file counts as empty.
struct QuarantineFile {
    /// The length of the longest text.
    private static let maximumBytes = Frame.maximumLength
    private static let maximumRecords = 1024
    /// The length of the longest build name, in bytes.
    private static let longestBuild = 64

    private let directory: CacheDirectory

    init(in directory: CacheDirectory) { self.directory = directory }

    /// Reads the records that a broker may have written. Others may have written the file.
    func read() -> [QuarantineRecord] {
        guard let file = try? FileSystem.openUntrusted(directory.quarantine), let size = try? file.size(),
            size <= Self.maximumBytes
        else { return [] }
        guard let bytes = try? file.read(size, at: 0),
            case .quarantine(let records)? = try? StoreReport(json: bytes[...])
        else { return [] }
        // The last records are the most recently requested.
        let possible = Array(records.filter { Self.isPossible($0) }.suffix(Self.maximumRecords))
        // The records may be longer when they are written again, and the broker kills a process that sends too long a
        // frame.
        return (try? StoreReport.quarantine(possible).encoded()) == nil ? [] : possible
    }

    /// Whether a broker may have made this record.
    private static func isPossible(_ record: QuarantineRecord) -> Bool {
        HexadecimalDigit.isDigest(record.digest) && record.build.utf8.count <= longestBuild
            && record.build.utf8.allSatisfy { (UInt8(ascii: " ")...UInt8(ascii: "~")).contains($0) }
    }

    /// Replaces the file. A failure is ignored, because a lost record costs only one more crash.
    func write(_ records: [QuarantineRecord]) {
        let text = StoreReport.quarantine(records).json
        if text.count > Self.maximumBytes { return }
        let temporary = directory.quarantineTemporary
        do {
            try? FileDescriptor.remove(temporary)
            let file = try FileSystem.createNew(temporary, mode: 0o600)
            try file.write(text.span, at: 0)
            try FileDescriptor.rename(temporary, to: directory.quarantine)
        } catch {
            try? FileDescriptor.remove(temporary)
        }
    }
}
