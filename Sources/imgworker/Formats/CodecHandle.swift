/// Owns what a codec created. An object of its own, because an initializer that throws half-way does not run its own
/// `deinit`, but lets go of the objects that it holds already.
@safe
final class CodecHandle {
    /// What the codec's functions take.
    let pointer: OpaquePointer
    private let destroy: (OpaquePointer?) -> Void

    /// Owns `pointer`, which `destroy` frees; nil when the codec had no memory for it.
    init?(_ pointer: OpaquePointer?, destroy: @escaping (OpaquePointer?) -> Void) {
        guard let pointer = unsafe pointer else { return nil }
        unsafe self.pointer = pointer
        unsafe self.destroy = destroy
    }

    deinit {
        unsafe destroy(pointer)
    }
}
