import IPCProtocol
import LinuxSystem

/// Where a result goes.
protocol ResultOutput {
    /// The file for it, asked for when the first rows are there.
    func descriptor() throws(WireError) -> FileDescriptor
}

extension FileDescriptor: ResultOutput {
    func descriptor() throws(WireError) -> FileDescriptor { self }
}

/// A file that is still on its way. Nobody waits for it before the first rows are made.
final class AwaitedOutput: ResultOutput {
    /// What came in its place.
    enum Answer {
        case file(FileDescriptor)
        /// The result is not wanted.
        case refusal
    }

    private let receive: () throws -> Answer
    private var outcome: Result<Answer, any Error>?

    /// An output for which `receive` waits.
    init(receive: @escaping () throws -> Answer) {
        self.receive = receive
    }

    /// What came, waited for if that has not been done yet.
    ///
    /// - Throws: what `receive` has thrown.
    func answer() throws -> Answer {
        let outcome = outcome ?? Result(catching: receive)
        self.outcome = outcome
        return try outcome.get()
    }

    /// The file; where none came, the error is only there to end the decoding.
    func descriptor() throws(WireError) -> FileDescriptor {
        guard case .file(let file)? = try? answer() else { throw WireError(.internal, "There is no buffer.") }
        return file
    }
}
