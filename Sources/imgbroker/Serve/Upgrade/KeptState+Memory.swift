import BrokerCore
import LinuxSystem
import SharedCache

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
    func sealed() throws(SystemError) -> (memory: FileDescriptor, omitted: Int) {
        let (bytes, omitted) = encoded
        return (try SealedBuffer(copying: bytes, name: "imgbroker-state").descriptor, omitted)
    }
}
