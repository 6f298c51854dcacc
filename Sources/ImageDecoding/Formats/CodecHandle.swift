/// Owns an object of a codec. A class of its own, because an initializer that throws does not run its own `deinit` but
/// releases the objects that it has stored.
@safe
package final class CodecHandle {
    /// The object to pass to the codec's functions.
    package let pointer: OpaquePointer
    private let destroy: (OpaquePointer?) -> Void

    /// Takes ownership of `pointer`, which `destroy` frees; nil if the codec had no memory to create it.
    package init?(_ pointer: OpaquePointer?, destroy: @escaping (OpaquePointer?) -> Void) {
        guard let pointer = unsafe pointer else { return nil }
        unsafe self.pointer = pointer
        unsafe self.destroy = destroy
    }

    deinit {
        unsafe destroy(pointer)
    }
}
