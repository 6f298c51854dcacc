import IPCProtocol
import LinuxSystem
import SharedCache

/// The bytes of a `store` on their way into a memfd of ours.
final class Upload {
    let request: StoreRequest
    private let product: Product
    private var received = 0

    /// Expects the payload of `request`.
    init(_ request: StoreRequest) throws(SystemError) {
        self.request = request
        product = try Product(name: "imgbroker-store")
    }

    /// The bytes still to come.
    var missing: Int { request.payload - received }

    /// Takes the next bytes.
    func append(_ bytes: ArraySlice<UInt8>) throws(SystemError) {
        guard let descriptor = product.descriptor else { return }
        var result: Result<Void, SystemError> = .success(())
        unsafe bytes.withUnsafeBytes { bytes in
            result = Result { () throws(SystemError) in unsafe try descriptor.write(bytes, at: received) }
        }
        try result.get()
        received += bytes.count
    }

    /// All bytes, which nobody can change any more.
    func sealed() throws(SystemError) -> SealedBuffer? {
        try product.seal(size: request.payload)
        return product.sealed
    }

    /// What a client gives as a descriptor: a sealed memfd as it is; another file in memory as a copy, as its owner could
    /// change it. Any other file may make whoever reads it wait, and the broker waits for nobody.
    static func take(_ descriptor: FileDescriptor, upTo limit: Int) throws(WireError) -> SealedBuffer {
        guard let size = try? descriptor.size() else {
            throw WireError(.badRequest, "The descriptor is no file.")
        }
        if size > limit { throw WireError(.tooLarge, "\(size) bytes are more than \(limit).") }
        if let sealed = try? SealedBuffer(verifying: descriptor, size: size) { return sealed }
        guard descriptor.isInMemory else {
            let message = "The descriptor must be a memfd, or a file of a tmpfs; else send a payload."
            throw WireError(.badRequest, message)
        }
        if size == 0 { throw WireError(.emptyImage, "There are no bytes.") }
        do throws(SystemError) {
            let product = try Product(name: "imgbroker-store", size: size)
            try product.descriptor?.copy(size, from: descriptor, at: 0)
            try product.seal(size: size)
            if let sealed = product.sealed { return sealed }
            throw SystemError("fcntl", code: SystemError.invalidArgument)
        } catch {
            throw WireError(.badRequest, "The descriptor cannot be read: \(error).")
        }
    }
}
