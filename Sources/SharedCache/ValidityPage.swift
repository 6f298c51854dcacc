internal import CLinux
internal import Glibc
package import LinuxSystem
package import SystemValues

/// The layout of the page: a header of 64 bytes, then a word for each slot, in the machine's byte order.
private enum Layout {
    /// The first eight bytes, as text.
    static let magic: UInt64 = 0x31_64_69_6c_61_76_62_69  // "ibvalid1"
    static let version: UInt32 = 1
    static let versionOffset = 8
    static let slotsOffset = 12
    static let ownerOffset = 16
    static let header = 64

    /// The size of a page with `slots` slots, in bytes; nil when the number is out of range.
    static func bytes(slots: Int) -> Int? {
        (1...1 << 24).contains(slots) ? header + slots * MemoryLayout<UInt64>.size : nil
    }
}

/// The validity page of a broker: a memfd that no other process can write or resize. Clients that map it know without a
/// request whether an image that they hold is still the one that a request would return.
@safe
package final class ValidityPage {
    /// The memfd, for clients.
    package let descriptor: FileDescriptor
    package let slots: Int
    private let base: UnsafeMutableRawPointer

    /// Makes a page with `slots` invalid slots. The kernel marks the page when the calling thread exits for any reason.
    /// A process makes one page.
    package init(slots: Int) throws(SystemError) {
        guard let bytes = Layout.bytes(slots: slots) else {
            throw SystemError("mmap", code: SystemError.invalidArgument)
        }
        descriptor = try WritableBuffer(name: "imgbroker-validity", size: bytes).descriptor
        unsafe base = try descriptor.map(bytes, access: PROT_READ | PROT_WRITE)
        self.slots = slots
        // From here on this mapping is the only writable one.
        try retrying("fcntl") { clinux_add_seals(descriptor.raw, clinux_seal_foreign_writes()) }
        unsafe base.storeBytes(of: Layout.magic, as: UInt64.self)
        unsafe base.storeBytes(of: Layout.version, toByteOffset: Layout.versionOffset, as: UInt32.self)
        unsafe base.storeBytes(of: UInt32(slots), toByteOffset: Layout.slotsOffset, as: UInt32.self)
        try retrying("set_robust_list") { unsafe clinux_own_until_death(owner) }
    }

    private var owner: UnsafeMutablePointer<UInt32> {
        unsafe (base + Layout.ownerOffset).assumingMemoryBound(to: UInt32.self)
    }

    package func store(_ word: ValidityWord, in slot: Int) {
        precondition((0..<slots).contains(slot))
        let place = unsafe (base + Layout.header).assumingMemoryBound(to: UInt64.self) + slot
        unsafe clinux_store_release(place, word.rawValue)
    }

    /// Invalidates the whole page.
    package func end() { unsafe clinux_disown(owner) }

    // The page stays mapped as long as the process lives, because the kernel writes to it at the end.
}

/// The validity page of a broker in a client: mapped read-only, and shared, so that each change is visible.
@safe
package final class ValidityView: @unchecked Sendable {
    // Read by any thread; the broker writes one word at a time.
    private let base: UnsafeMutableRawPointer
    private let count, slots: Int
    private let owner: UInt32

    /// Whether the page has a version that this code understands. Another one has no valid slots here.
    package let isKnown: Bool

    /// Maps the page of a broker that reported `slots` slots. Throws `SystemError` of `fcntl`, `fstat` or `mmap`;
    /// `EINVAL` when it is not such a page, or another process than the broker could change it.
    package init(verifying descriptor: FileDescriptor, slots: Int) throws(SystemError) {
        let seals = try retrying("fcntl") { clinux_get_seals(descriptor.raw) }
        let needed = clinux_seal_foreign_writes()
        guard let bytes = Layout.bytes(slots: slots), seals & needed == needed || descriptor.isSealed,
            try descriptor.size() >= bytes
        else { throw SystemError("fcntl", code: SystemError.invalidArgument) }
        (count, self.slots) = (bytes, slots)
        unsafe base = try descriptor.map(bytes)
        owner = unsafe Self.owner(of: base)
        isKnown = unsafe base.load(fromByteOffset: Layout.versionOffset, as: UInt32.self) == Layout.version
        guard unsafe base.load(as: UInt64.self) == Layout.magic else {
            throw SystemError("mmap", code: SystemError.invalidArgument)
        }
    }

    deinit { unsafe munmap(base, count) }

    private static func owner(of base: UnsafeMutableRawPointer) -> UInt32 {
        unsafe clinux_load_acquire_32((base + Layout.ownerOffset).assumingMemoryBound(to: UInt32.self))
    }

    /// Whether the broker that made the page is alive. The word is 0 after a shutdown, and has the kernel's bit after
    /// any other exit.
    package var hasOwner: Bool {
        unsafe owner != 0 && owner & clinux_owner_died() == 0 && Self.owner(of: base) == owner
    }

    /// Whether a request at `tenth` would return the image that `slot` and `generation` were given to.
    package func isValid(slot: Int, generation: UInt32, at tenth: UInt32) -> Bool {
        guard isKnown, slot >= 0, slot < slots else { return false }
        let place = unsafe (base + Layout.header).assumingMemoryBound(to: UInt64.self) + slot
        let word = ValidityWord(rawValue: unsafe clinux_load_acquire(place))
        return word.generation == generation && tenth < word.expiry && hasOwner
    }

    /// The monotonic clock in tenths of a second, a few milliseconds late, without a system call.
    package static var now: UInt32 { UInt32(truncatingIfNeeded: clinux_coarse_tenths()) }
}
