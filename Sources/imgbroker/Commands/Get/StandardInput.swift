import IPCProtocol
import ImageBrokerClient
import LinuxSystem
import SharedCache

/// Standard input as the file of a request.
enum StandardInput {
    /// The most bytes of a pipe that are read; the broker's own limit is lower by default.
    private static let longest = 1 << 30

    /// Standard input itself if it is a regular file, which is used from its beginning, else a memfd with all that it
    /// brings.
    static func file() throws -> FileDescriptor {
        let input = try FileDescriptor.standardInput()
        if try input.status().isRegular { return input }
        let memory = try WritableBuffer(name: "imgbroker-stdin").descriptor
        // Sealed, so that the same bytes are known the next time.
        if try memory.appendAll(of: input, upTo: longest) {
            try memory.seal()
            return memory
        }
        throw ClientError.refused(WireError(.tooLarge, "Standard input is longer than \(longest) bytes."))
    }
}
