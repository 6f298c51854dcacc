internal import CLinux
internal import Glibc
package import LinuxSystem
package import SystemValues

/// How the page is laid out: a header of 64 bytes, then a word a slot, all in the machine's own byte order.
private enum Layout {
    /// The first eight bytes, as text.
    static let magic: UInt64 = 0x31_64_69_6c_61_76_62_69  // "ibvalid1"
    static let version: UInt32 = 1
    static let versionOffset = 8
    static let slotsOffset = 12
    static let ownerOffset = 16
    static let header = 64

    /// The bytes of a page of so many slots; nil for more than there can be.
    static func bytes(slots: Int) -> Int? {
        (1...1 << 24).contains(slots) ? header + slots * MemoryLayout<UInt64>.size : nil
    }
}

/// The validity page as its broker has it: a memfd that nobody else can write or resize. Clients that map it see without
/// asking whether what they were given is still what they would get.
@safe
package final class ValidityPage {
    /// The memfd, for clients.
    package let descriptor: FileDescriptor
    /// How many slots there are.
    package let slots: Int
    private let base: UnsafeMutableRawPointer
    private let count: Int

    /// Makes a page of so many slots, none valid, that lives as long as the calling thread: when that ends, however it does,
    /// the kernel marks the page. A process makes one page.
    ///
    /// - Throws: `SystemError` of `memfd_create`, `ftruncate`, `mmap`, `fcntl` or `set_robust_list`.
    package init(slots: Int) throws(SystemError) {
        guard let bytes = Layout.bytes(slots: slots) else {
            throw SystemError("mmap", code: SystemError.invalidArgument)
        }
        descriptor = try WritableBuffer(name: "imgbroker-validity", size: bytes).descriptor
        let address = unsafe mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.raw, 0)
        guard let address = unsafe address, unsafe address != clinux_map_failed() else { throw SystemError("mmap") }
        unsafe base = address
        (count, self.slots) = (bytes, slots)
        // From here on this mapping is the only one that can be written through.
        try retrying("fcntl") { clinux_add_seals(descriptor.raw, clinux_seal_foreign_writes()) }
        unsafe base.storeBytes(of: Layout.magic, as: UInt64.self)
        unsafe base.storeBytes(of: Layout.version, toByteOffset: Layout.versionOffset, as: UInt32.self)
        unsafe base.storeBytes(of: UInt32(slots), toByteOffset: Layout.slotsOffset, as: UInt32.self)
        try retrying("set_robust_list") { unsafe clinux_own_until_death(owner) }
    }

    private var owner: UnsafeMutablePointer<UInt32> {
        unsafe (base + Layout.ownerOffset).assumingMemoryBound(to: UInt32.self)
    }

    /// Lets everybody see what a slot says from now on.
    package func store(_ word: ValidityWord, in slot: Int) {
        precondition((0..<slots).contains(slot))
        let place = unsafe (base + Layout.header).assumingMemoryBound(to: UInt64.self) + slot
        unsafe clinux_store_release(place, word.rawValue)
    }

    /// Says that nothing on the page is valid any more.
    package func end() {
        unsafe clinux_disown(owner)
    }

    // It stays mapped for as long as the process lives: the kernel writes to it at the end.
}

/// The validity page of a broker as a client has it: mapped read-only, and shared, so that each change is seen.
@safe
package final class ValidityView: @unchecked Sendable {
    // Read by all, and written by the broker, one word at a time.
    private let base: UnsafeMutableRawPointer
    private let count: Int
    private let slots: Int
    private let owner: UInt32

    /// Maps the page of a broker that said it has so many slots.
    ///
    /// - Throws: `SystemError` of `fcntl`, `fstat` or `mmap`; `EINVAL` for what is no such page.
    package init(verifying descriptor: FileDescriptor, slots: Int) throws(SystemError) {
        let seals = try retrying("fcntl") { clinux_get_seals(descriptor.raw) }
        guard let bytes = Layout.bytes(slots: slots), seals & clinux_seal_size() == clinux_seal_size(),
            try descriptor.size() >= bytes
        else { throw SystemError("fcntl", code: SystemError.invalidArgument) }
        let address = unsafe mmap(nil, bytes, PROT_READ, MAP_SHARED, descriptor.raw, 0)
        guard let address = unsafe address, unsafe address != clinux_map_failed() else { throw SystemError("mmap") }
        (count, self.slots) = (bytes, slots)
        unsafe base = address
        owner = unsafe Self.owner(of: address)
        guard unsafe base.load(as: UInt64.self) == Layout.magic,
            unsafe base.load(fromByteOffset: Layout.versionOffset, as: UInt32.self) == Layout.version
        else { throw SystemError("mmap", code: SystemError.invalidArgument) }
    }

    deinit {
        unsafe munmap(base, count)
    }

    private static func owner(of base: UnsafeMutableRawPointer) -> UInt32 {
        unsafe clinux_load_acquire_32((base + Layout.ownerOffset).assumingMemoryBound(to: UInt32.self))
    }

    /// Whether the broker is the one that made the page, and lives. The word is 0 when it ended in order, and has the bit of
    /// the kernel when it did not.
    package var hasOwner: Bool {
        unsafe owner != 0 && owner & clinux_owner_died() == 0 && Self.owner(of: base) == owner
    }

    /// Whether what was named by `slot` and `generation` is what a request would get at `tenth`.
    package func isValid(slot: Int, generation: UInt32, at tenth: UInt32) -> Bool {
        guard slot >= 0, slot < slots else { return false }
        let place = unsafe (base + Layout.header).assumingMemoryBound(to: UInt64.self) + slot
        let word = ValidityWord(rawValue: unsafe clinux_load_acquire(place))
        return word.generation == generation && tenth < word.expiry && hasOwner
    }

    /// Tenths of a second of the monotonic clock, a few milliseconds late: no system call.
    package static var now: UInt32 { UInt32(truncatingIfNeeded: clinux_coarse_tenths()) }
}
