import IPCProtocol
import LinuxSystem
import SharedCache

/// The bytes of a `store`: the checks of a descriptor that came with it, and the copy into a memfd of the broker's, as
/// the payload arrives or from a file in parts.
final class Upload {
    /// A descriptor that a client sent.
    enum Given {
        case sealed(SealedBuffer)
        /// A file that is copied, because its owner could change it.
        case file(Upload)
    }

    /// The bytes of a file copied in one step, which takes less than a millisecond.
    private static let copiedAtOnce = 1 << 20

    let request: StoreRequest
    let size: Int
    private let product: Product
    private let source: FileDescriptor?
    private(set) var received = 0

    /// Expects the payload of `request`, or copies the `size` bytes of `source`.
    init(_ request: StoreRequest, size: Int? = nil, from source: FileDescriptor? = nil) throws(SystemError) {
        self.request = request
        self.size = size ?? request.payload
        self.source = source
        product = try Product(name: "imgbroker-store", size: size)
    }

    /// The request and the bytes that have arrived, as the client has sent them; nil if they cannot be read.
    var resent: [UInt8]? {
        guard !isCopy, let descriptor = product.descriptor,
            let frame = try? ClientMessage.store(request).encoded()
        else { return nil }
        let bytes = try? descriptor.read(received, at: 0)
        return bytes?.count == received ? frame + (bytes ?? []) : nil
    }

    var missing: Int { size - received }
    var isCopy: Bool { source != nil }

    func append(_ bytes: ArraySlice<UInt8>) throws(SystemError) {
        guard let descriptor = product.descriptor else { return }
        try descriptor.write(bytes.span, at: received)
        received += bytes.count
    }

    /// Copies the next bytes of the file; false when the file has become shorter.
    func copyMore() throws(SystemError) -> Bool {
        guard let source, let target = product.descriptor else { return false }
        let copied = try target.copy(min(missing, Self.copiedAtOnce), from: source, at: received, to: received)
        received += copied
        return copied > 0
    }

    func sealed() throws(SystemError) -> SealedBuffer? {
        try product.seal(size: size)
        return product.sealed
    }

    static var notInMemory: WireError {
        WireError(.badRequest, "The descriptor must be a memfd, or a file of a tmpfs; else send a payload.")
    }

    private static var notReadable: WireError {
        WireError(.badRequest, "The descriptor is not open for reading: open the file with O_RDONLY or O_RDWR.")
    }

    /// Verifies a memfd with stored pixels, which is never copied.
    private static func sealedPixels(in descriptor: FileDescriptor) throws(WireError) -> SealedBuffer {
        if descriptor.hasSeals, !descriptor.isOpenForReading { throw notReadable }
        // Huge pages can only be mapped as wholes, and an image rarely ends with one.
        guard descriptor.hasSeals, !descriptor.hasHugePages, let size = try? descriptor.size(),
            let sealed = try? SealedBuffer(verifying: descriptor, size: size)
        else {
            throw WireError(.badRequest, "Pixels must come in a memfd with all four seals, without huge pages.")
        }
        return sealed
    }

    /// Inspects a client's descriptor. Only a file in memory is ever read: any other may block the broker.
    static func look(
        at descriptor: FileDescriptor, for request: StoreRequest, upTo limit: Int
    ) throws(WireError) -> Given {
        if request.pixels != nil { return .sealed(try sealedPixels(in: descriptor)) }
        guard descriptor.hasSeals, let size = try? descriptor.size() else { throw notInMemory }
        guard descriptor.isOpenForReading else { throw notReadable }
        if size > limit { throw WireError(.tooLarge, "The file has \(size) bytes; --max-download permits \(limit).") }
        if let sealed = try? SealedBuffer(verifying: descriptor, size: size) { return .sealed(sealed) }
        if size == 0 { throw WireError(.emptyImage, "There are no bytes.") }
        do {
            return .file(try Upload(request, size: size, from: descriptor))
        } catch {
            throw WireError(.outOfMemory, "There is no room for the bytes: \(error).")
        }
    }
}
