import IPCProtocol
import LinuxSystem
import SystemValues

/// The destination file of a result.
protocol ResultOutput {
    /// Returns the file. Called when the first rows are decoded.
    func descriptor() throws(WireError) -> FileDescriptor
    /// The time that has been spent waiting for it.
    var waitedMicroseconds: Int { get }
}

extension FileDescriptor: ResultOutput {
    func descriptor() throws(WireError) -> FileDescriptor { self }
    var waitedMicroseconds: Int { 0 }
}

/// A file that the broker has yet to send. Decoding waits for it only when the first rows are ready.
final class AwaitedOutput: ResultOutput {
    /// The broker's answer to the header.
    enum Answer {
        case file(FileDescriptor)
        /// The result is not wanted.
        case refusal
    }

    private let receive: () throws -> Answer
    private var outcome: Result<Answer, any Error>?
    private(set) var waitedMicroseconds = 0

    /// Creates an output whose answer `receive` waits for.
    init(receive: @escaping () throws -> Answer) {
        self.receive = receive
    }

    /// Returns the answer; the first call waits for it.
    ///
    /// - Throws: the error of `receive`.
    func answer() throws -> Answer {
        if let outcome { return try outcome.get() }
        let begun = Instant.now
        let outcome = Result(catching: receive)
        waitedMicroseconds = Instant.now.microseconds(since: begun)
        self.outcome = outcome
        return try outcome.get()
    }

    /// Returns the file. Without one it throws, which only serves to end the decoding.
    func descriptor() throws(WireError) -> FileDescriptor {
        guard case .file(let file)? = try? answer() else { throw WireError(.internal, "There is no buffer.") }
        return file
    }
}
