import BrokerCore
import IPCProtocol
import LinuxSystem
import SharedCache

/// The start of a program that takes the place of a running broker, by `execve` in the same process.
///
///     imgbroker take-over FD [OPTION]...     serves with the state behind the descriptor
///     imgbroker check-state [OPTION]...      exits with 0 if it could, with the state as descriptor 3
enum TakeOver {
    /// The first words of the command lines.
    static let word = "take-over"
    static let checkWord = "check-state"

    /// The broker's own arguments, in the process that it was started as and in those that have taken its place.
    static var brokerArguments: [String] {
        let words = Array(CommandLine.arguments.dropFirst())
        return words.first == word ? Array(words.dropFirst(2)) : words
    }

    /// Whether this program could take over, for the process that asks before it gives up its own.
    static func check(_ words: some Sequence<String>) -> Int32 {
        let control = FileDescriptor(owning: WorkerLauncher.controlDescriptor)
        do {
            guard case .serve = try BrokerCommandLine.read(words) else { return 2 }
            _ = try state(in: control)
            guard WorkerLauncher() != nil else {
                StandardError.write("the worker programs are missing")
                return 1
            }
            return 0
        } catch {
            StandardError.write("cannot take over: \(error)")
            return 1
        }
    }

    /// Serves in place of the broker whose state a descriptor has.
    static func run(_ words: some Sequence<String>) throws(UsageError) -> Int32 {
        let words = Array(words)
        guard let number = words.first.flatMap({ Int32($0) }), number > 2,
            (try? FileDescriptor.closeOnExec(number)) != nil
        else { return 2 }
        guard case .serve(let settings) = try BrokerCommandLine.read(words.dropFirst()) else { return 2 }
        do {
            let state = try state(in: FileDescriptor(owning: number))
            return ServeCommand.run(settings, try Inheritance(state))
        } catch {
            StandardError.write("cannot take over: \(error)")
            return 1
        }
    }

    /// Reads a state out of its sealed memfd.
    static func state(in descriptor: FileDescriptor) throws -> KeptState {
        let size = try descriptor.size()
        guard descriptor.isSealed, size <= mostBytes else { throw StateRefusal.noState }
        var bytes = [UInt8](repeating: 0, count: size)
        let count = unsafe try bytes.withUnsafeMutableBytes { unsafe try descriptor.read(into: $0, at: 0) }
        guard count == size else { throw StateRefusal.noState }
        return try KeptState(decoding: bytes)
    }

    /// The most bytes of a state: more than one of a million small images.
    private static let mostBytes = 4 << 30
}

extension KeptState {
    /// A sealed memfd with the state, and the number of contents that no frame can hold.
    ///
    /// - Throws: `SystemError` of `memfd_create`, `pwrite` or `fcntl`.
    func sealed() throws(SystemError) -> (memory: FileDescriptor, omitted: Int) {
        let (bytes, omitted) = encoded
        let memory = try unsafe bytes.withUnsafeBytes { bytes in
            Result { () throws(SystemError) in
                try unsafe SealedBuffer(copying: bytes, name: "imgbroker-state").descriptor
            }
        }.get()
        return (memory, omitted)
    }
}

/// The state and the descriptors of the process whose place this one takes.
struct Inheritance {
    private(set) var state: KeptState
    let listener: ListeningSocket
    let remover: SocketRemover?
    let cacheDirectory: FileDescriptor?
    /// All other descriptors by their numbers, besides those of clients.
    private let files: [Int: FileDescriptor]

    /// Takes over the descriptors that a state names.
    ///
    /// - Throws: `SystemError` of `fcntl`: `EBADF` if one is not open.
    init(_ state: KeptState) throws {
        guard let process = state.process else { throw StateRefusal.unreadable }
        var files: [Int: FileDescriptor] = [:]
        func take(_ number: Int) throws -> FileDescriptor {
            if let known = files[number] { return known }
            guard number > 2 else { throw StateRefusal.unreadable }
            try FileDescriptor.closeOnExec(Int32(number))
            let file = FileDescriptor(owning: Int32(number))
            files[number] = file
            return file
        }
        let socket = try take(process.listener)
        var identity: UnixSocket.FileIdentity?
        if let device = process.device, let inode = process.inode {
            identity = UnixSocket.FileIdentity(
                device: UInt64(bitPattern: Int64(device)), inode: UInt64(bitPattern: Int64(inode)), isSocket: true)
        }
        listener = ListeningSocket(inherited: socket, path: process.path, identity: identity)
        remover = try process.remover.map { SocketRemover(inherited: try take($0)) }
        cacheDirectory = try process.cacheDirectory.map(take)
        for content in state.contents {
            for buffer in content.buffers { _ = try buffer.place?.descriptor.map(take) }
        }
        for client in state.clients {
            for output in client.output {
                for number in output.descriptors { _ = try take(number) }
                _ = try output.payload.map { try take($0.descriptor) }
            }
            try FileDescriptor.closeOnExec(Int32(client.descriptor))
        }
        self.files = files
        self.state = state
    }

    /// The descriptor with a number that the state names.
    func file(_ number: Int) -> FileDescriptor? { files[number] }
}
