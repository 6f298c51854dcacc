import BrokerCore
import LinuxSystem
import SharedCache

/// The state and the descriptors of the process whose place this one takes.
final class Inheritance {
    private(set) var state: KeptState
    let listener: ListeningSocket
    let remover: SocketRemover?
    let cacheDirectory: FileDescriptor?
    /// All other descriptors by their numbers, besides those of clients.
    private var files: [Int: FileDescriptor]
    /// Descriptors to be closed, which no object owns.
    let closing: [Int32]

    /// Takes over the descriptors that a state names, each of which must be open.
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
        for segment in state.segments { _ = try take(segment.descriptor) }
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
        // Descriptors to be sent have an owner already.
        closing = Set(process.closing).subtracting(files.keys).map { Int32($0) }
        for descriptor in closing { try FileDescriptor.closeOnExec(descriptor) }
        for connection in process.departed { try FileDescriptor.closeOnExec(Int32(connection.descriptor)) }
    }

    /// Releases all descriptors. Otherwise callers of `Broker.run` would keep images open that the broker has evicted.
    func release() {
        files = [:]
        state = KeptState()
    }

    func file(_ number: Int) -> FileDescriptor? { files[number] }
}

extension KeptState {
    /// The most bytes of a state: more than one of a million small images.
    private static let mostBytes = 4 << 30

    init(in descriptor: FileDescriptor) throws {
        let size = try descriptor.size()
        guard descriptor.isSealed, size <= Self.mostBytes else { throw StateRefusal.noState }
        let bytes = try descriptor.read(size, at: 0)
        guard bytes.count == size else { throw StateRefusal.noState }
        self = try KeptState(decoding: bytes)
    }

    /// A sealed memfd with the state, and the number of contents that no frame can hold.
    func sealed() throws -> (memory: FileDescriptor, omitted: Int) {
        let (bytes, omitted) = try encoded()
        return (try SealedBuffer(copying: bytes, name: "imgbroker-state").descriptor, omitted)
    }
}
