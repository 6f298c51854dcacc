import IPCProtocol
import LinuxSystem
import SystemValues
import WorkerProtocol

/// Where a result is written to: a file, or a part of one that has parts for other results.
struct ResultFile {
    let file: FileDescriptor
    /// The part; nil for all of the file.
    var place: ResultPlace?

    /// The bytes that it has room for; nil when they cannot be determined.
    var room: Int? { place?.room ?? (try? file.size()) }

    /// Whether it has room for the result of a job.
    func holds(_ plan: DecodePlan, for job: DecodeJob) -> Bool {
        plan.outputBytes(job.transform, job.encoding) <= room ?? 0
    }

    /// Writes `bytes` at `offset`, counted from the beginning of the part, and returns their number. Throws
    /// `out-of-memory`, as a memfd is memory and writing to it fails without any; `internal`.
    @discardableResult
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(WireError) -> Int {
        if let place, offset > place.room - bytes.count {
            throw WireError(.internal, "The result has more bytes than there is room for.")
        }
        do {
            unsafe try file.write(bytes, at: (place?.offset ?? 0) + offset)
        } catch {
            if error.isLackOfSpace { throw .outOfMemory }
            throw WireError(.internal, "The image cannot be written: \(error).")
        }
        return bytes.count
    }

    func write(_ bytes: [UInt8], at offset: Int) throws(WireError) {
        let outcome = unsafe bytes.withUnsafeBytes { bytes in
            Result { () throws(WireError) in unsafe try write(bytes, at: offset) }
        }
        _ = try outcome.get()
    }

    /// Lets a file of its own keep `count` bytes, and seals it. If that fails, the broker tries it, and finds out why.
    func seal(keeping count: Int) {
        if place != nil { return }
        try? file.truncate(to: count)
        try? file.seal()
    }
}

protocol ResultOutput {
    /// Returns the file. Called when the first rows are decoded.
    func destination() throws(WireError) -> ResultFile
    /// The time that has been spent waiting for it.
    var waitedMicroseconds: Int { get }
}

extension FileDescriptor: ResultOutput {
    func destination() -> ResultFile { ResultFile(file: self) }
    var waitedMicroseconds: Int { 0 }
}

extension ResultFile: ResultOutput {
    func destination() -> ResultFile { self }
    var waitedMicroseconds: Int { 0 }
}

/// A file that the broker has yet to send. Decoding waits for it only when the first rows are ready.
final class AwaitedOutput: ResultOutput {
    /// The broker's answer to the header.
    enum Answer {
        case file(ResultFile)
        case refusal
    }

    private let receive: () throws -> Answer
    private var outcome: Result<Answer, any Error>?
    private(set) var waitedMicroseconds = 0

    /// Creates an output whose answer `receive` waits for.
    init(receive: @escaping () throws -> Answer) { self.receive = receive }

    /// Returns the answer, or throws the error of `receive`; the first call waits for it.
    func answer() throws -> Answer {
        if let outcome { return try outcome.get() }
        let begun = Instant.now
        let outcome = Result(catching: receive)
        waitedMicroseconds = Instant.now.microseconds(since: begun)
        self.outcome = outcome
        return try outcome.get()
    }

    /// Returns the file. Without one it throws, which only serves to end the decoding.
    func destination() throws(WireError) -> ResultFile {
        guard case .file(let file)? = try? answer() else { throw WireError(.internal, "There is no buffer.") }
        return file
    }
}
