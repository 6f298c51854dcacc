import Digests
import Foundation
import Glibc
import LinuxSystem
import SharedCache
import SystemValues
import TestSupport
import Testing

/// The error number of the call; 0 on success.
func failure(_ body: () throws -> Void) -> Int32 {
    do {
        try body()
        return 0
    } catch let error as SystemError {
        return error.code
    } catch {
        return -1
    }
}

/// Buffers that cannot change once they are sealed, and descriptors that only look like one.
struct SealedBufferTests {
    private func buffer(_ bytes: [UInt8], size: Int? = nil) throws -> SealedBuffer {
        let buffer = try WritableBuffer(name: "test", size: size)
        try buffer.descriptor.write(bytes.span, at: 0)
        return try buffer.seal()
    }

    @Test func sealedBytesStayAsTheyAre() throws {
        let sealed = try buffer([1, 2, 3, 4], size: 4)
        #expect(sealed.size == 4)
        let descriptor = sealed.descriptor
        let byte: [UInt8] = [9]
        #expect(failure { try descriptor.write(byte.span, at: 0) } == EPERM)
        #expect(failure { try descriptor.write(byte.span, at: 4) } == EPERM)
        #expect(failure { try descriptor.truncate(to: 0) } == EPERM)
        #expect(failure { try descriptor.truncate(to: 8) } == EPERM)
        let address = unsafe mmap(nil, 4, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.raw, 0)
        #expect(unsafe address == MAP_FAILED)
        #expect(unsafe try Mapping(sealed).withBytes { unsafe Array($0) } == [1, 2, 3, 4])
    }

    @Test func sizeIsFinalWhereItIsGiven() throws {
        let buffer = try WritableBuffer(name: "test", size: 100)
        let descriptor = buffer.descriptor
        #expect(failure { try descriptor.truncate(to: 99) } == EPERM)
        #expect(failure { try descriptor.truncate(to: 101) } == EPERM)
        let bytes = [UInt8](repeating: 7, count: 101)
        #expect(failure { try descriptor.write(bytes.span, at: 0) } != 0)
        #expect(try descriptor.size() == 100)
        #expect(try buffer.seal().size == 100)
    }

    @Test func `a segment cannot be resized, and only the mapping that was made before its seals can write`() throws {
        // 1033 is F_ADD_SEALS; seal, shrink, grow and future-write.
        for seals in [0b1_0111, 0b0111, 0b1_0110, 0b1_0101, 0b1_0011] as [Int32] {
            let isSegment = seals == 0b1_0111
            let file = try WritableBuffer(name: "test").descriptor
            try file.truncate(to: 4096)
            let base = unsafe try #require(mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.raw, 0))
            defer { unsafe munmap(base, 4096) }
            #expect(fcntl(file.raw, 1033, seals) == 0)
            #expect(file.isSegment(of: 4096) == isSegment)
            #expect(!file.isSegment(of: 4095) && !file.isSegment(of: 4097))
            if !isSegment { continue }
            let mapping = try Mapping(segment: file, size: 4096)
            unsafe base.storeBytes(of: 7, toByteOffset: 100, as: UInt8.self)
            #expect(unsafe mapping.withBytes { unsafe $0[100] } == 7)
        }
        #expect(try !UnixSocket.pair().0.isSegment(of: 0))
    }

    @Test func growsWithoutASize() throws {
        let bytes = [UInt8]((0..<200).map { UInt8($0) })
        let sealed = try buffer(bytes)
        #expect(sealed.size == 200)
        #expect(unsafe try Mapping(sealed).withBytes { unsafe Array($0) } == bytes)
        #expect(try buffer([]).size == 0)
        #expect(unsafe try Mapping(try buffer([])).withBytes { $0.count } == 0)
    }

    @Test func whoMapsItWritableKeepsItFromBeingSealed() throws {
        let buffer = try WritableBuffer(name: "test", size: 4096)
        let descriptor = buffer.descriptor
        let address = unsafe mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.raw, 0)
        try #require(unsafe address != MAP_FAILED)
        var code: Int32 = 0
        do { _ = try buffer.seal() } catch { code = error.code }
        #expect(code == EBUSY)
        unsafe munmap(address!, 4096)
        // Unsealed memfds are rejected.
        #expect(failure { _ = try SealedBuffer(verifying: descriptor, size: 4096) } == EINVAL)
    }

    @Test func sizeMustBeThere() throws {
        let sealed = try buffer([1, 2, 3, 4])
        #expect(try SealedBuffer(verifying: sealed.descriptor, size: 4).size == 4)
        #expect(try SealedBuffer(verifying: sealed.descriptor, size: 2).size == 2)
        #expect(failure { _ = try SealedBuffer(verifying: sealed.descriptor, size: 5) } == EINVAL)
        #expect(failure { _ = try SealedBuffer(verifying: sealed.descriptor, size: .max) } == EINVAL)
    }

    @Test func impostors() throws {
        let directory = try TemporaryDirectory()
        let file = try FileDescriptor.create(at: directory.file("file"))
        try file.truncate(to: 4096)
        #expect(failure { _ = try SealedBuffer(verifying: file, size: 10) } != 0)
        // On tmpfs a file has one seal.
        if CurrentProcess.mayWrite(to: "/dev/shm") {
            let path = "/dev/shm/" + directory.path.split(separator: "/").joined(separator: "-")
            let shared = try FileDescriptor.create(at: path)
            try FileDescriptor.remove(path)
            try shared.truncate(to: 4096)
            #expect(failure { _ = try SealedBuffer(verifying: shared, size: 10) } != 0)
        }
        let unsealed = try WritableBuffer(name: "test", size: 4096).descriptor
        #expect(failure { _ = try SealedBuffer(verifying: unsealed, size: 10) } == EINVAL)
        let open = try WritableBuffer(name: "test").descriptor
        try open.truncate(to: 4096)
        #expect(failure { _ = try SealedBuffer(verifying: open, size: 10) } == EINVAL)
        var ends: [Int32] = [-1, -1]
        try #require(unsafe pipe(&ends) == 0)
        let pipes = ends.map { FileDescriptor(owning: $0) }
        #expect(failure { _ = try SealedBuffer(verifying: pipes[0], size: 0) } != 0)
        let (socket, _) = try UnixSocket.pair()
        #expect(failure { _ = try SealedBuffer(verifying: socket, size: 0) } != 0)
    }

    /// In a process of its own, in which no other test maps memory meanwhile.
    @Test func mappingsEndWithTheirValues() async throws {
        await #expect(processExitsWith: .success) {
            func mapped() -> Int {
                text(ofFile: "/proc/self/maps").split(separator: "\n").count { $0.contains("memfd:lasting") }
            }
            func useTwo(_ sealed: SealedBuffer) throws -> Int {
                let first = try Mapping(sealed)
                let second = try Mapping(sealed)
                // Both stay mapped until they are used.
                return unsafe first.withBytes { _ in unsafe second.withBytes { _ in mapped() } }
            }
            let sealed = try WritableBuffer(name: "lasting", size: 8192).seal()
            guard mapped() == 0 else { exit(1) }
            guard try useTwo(sealed) == 2 else { exit(2) }
            guard mapped() == 0 else { exit(3) }
        }
    }
}

/// FIPS 180-4, with NIST's examples.
struct SHA256Tests {
    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
    ]) func vectors(_ text: String, _ digest: String) {
        #expect(SHA256.hexadecimalDigest(of: text.utf8) == digest)
    }

    @Test func millionLetters() {
        let digest = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        #expect(SHA256.hexadecimalDigest(of: [UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000)) == digest)
    }

    @Test(arguments: [1, 7, 63, 64, 65, 1000]) func inPieces(_ size: Int) {
        let bytes = (0..<5000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        var hash = SHA256()
        for start in stride(from: 0, to: bytes.count, by: size) {
            unsafe bytes[start..<min(start + size, bytes.count)].withUnsafeBytes { unsafe hash.update($0) }
        }
        unsafe hash.update(UnsafeRawBufferPointer(start: nil, count: 0))
        #expect(hash.hexadecimalDigest() == SHA256.hexadecimalDigest(of: bytes))
    }
}

/// The page from which clients read the validity of their images.
@Suite(.timeLimit(.minutes(10))) struct ValidityPageTests {
    private final class Shared: @unchecked Sendable {
        let made = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        var page: ValidityPage?
    }

    /// A page owned by a thread that exits when it is told to.
    private func page(slots: Int = 100) throws -> (page: ValidityPage, endThread: () -> Void) {
        let shared = Shared()
        Thread.detachNewThread {
            shared.page = try? ValidityPage(slots: slots)
            shared.made.signal()
            shared.mayEnd.wait()
        }
        shared.made.wait()
        return (try #require(shared.page), { shared.mayEnd.signal() })
    }

    @Test func changesAreSeen() throws {
        let (page, end) = try page()
        defer { end() }
        let view = try ValidityView(verifying: page.descriptor, slots: 100)
        #expect(!view.isValid(slot: 99, generation: 0, at: 0))
        page.store(ValidityWord(generation: 7, expiry: 10), in: 99)
        #expect(view.isValid(slot: 99, generation: 7, at: 9))
        #expect(!view.isValid(slot: 99, generation: 7, at: 10))
        #expect(!view.isValid(slot: 99, generation: 6, at: 9))
        #expect(!view.isValid(slot: 98, generation: 7, at: 9))
        for slot in [-1, 100, Int.max] { #expect(!view.isValid(slot: slot, generation: 0, at: 0)) }
        page.store(ValidityWord(generation: 7, expiry: 0), in: 99)
        #expect(!view.isValid(slot: 99, generation: 7, at: 0))
    }

    @Test func nobodyElseCanWrite() throws {
        let (page, end) = try page()
        defer { end() }
        let file = page.descriptor
        // As another process has it: opened again, also for writing.
        let opened = FileDescriptor(owning: unsafe Glibc.open("/proc/self/fd/\(file.raw)", O_RDWR | O_CLOEXEC))
        for descriptor in [file, opened] where descriptor.raw >= 0 {
            let size = try descriptor.size()
            let writable = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.raw, 0)
            #expect(unsafe writable == MAP_FAILED)
            let readable = unsafe try #require(mmap(nil, size, PROT_READ, MAP_SHARED, descriptor.raw, 0))
            #expect(unsafe mprotect(readable, size, PROT_READ | PROT_WRITE) != 0)
            unsafe munmap(readable, size)
            #expect(ftruncate(descriptor.raw, 0) != 0)
            #expect(ftruncate(descriptor.raw, off_t(size + 1)) != 0)
            #expect(unsafe pwrite(descriptor.raw, "x", 1, 0) < 0)
        }
    }

    @Test func itEndsWithItsOwner() throws {
        let (page, end) = try page()
        let view = try ValidityView(verifying: page.descriptor, slots: 100)
        page.store(ValidityWord(generation: 1, expiry: .max), in: 0)
        #expect(view.isValid(slot: 0, generation: 1, at: 5))
        end()
        try eventually("the kernel has marked the page") { !view.hasOwner }
        #expect(!view.isValid(slot: 0, generation: 1, at: 5))
        #expect(try !ValidityView(verifying: page.descriptor, slots: 100).hasOwner)
    }

    @Test func itEndsInOrder() throws {
        let (page, end) = try page()
        defer { end() }
        let view = try ValidityView(verifying: page.descriptor, slots: 100)
        #expect(view.hasOwner)
        page.end()
        #expect(!view.hasOwner)
        #expect(try !ValidityView(verifying: page.descriptor, slots: 100).hasOwner)
    }

    @Test func impostorsAreNotBelieved() throws {
        let (page, end) = try page(slots: 8)
        defer { end() }
        let plain = try WritableBuffer(name: "test", size: 4096).descriptor
        let growing = try WritableBuffer(name: "test").descriptor
        try growing.truncate(to: 4096)
        for (descriptor, slots) in [(plain, 8), (growing, 8), (page.descriptor, 9), (page.descriptor, 0)] {
            #expect(throws: SystemError.self) { try ValidityView(verifying: descriptor, slots: slots) }
        }
        #expect(throws: SystemError.self) { try ValidityPage(slots: 0) }
        #expect(throws: SystemError.self) { try ValidityPage(slots: .max) }
    }

    /// A page that can be resized, and pages of another kind or version.
    @Test func impostorsAreRejected() throws {
        let (page, end) = try page(slots: 8)
        defer { end() }
        let sound = try page.descriptor.read(try page.descriptor.size(), at: 0)
        func isBelieved(_ bytes: [UInt8], isSealed: Bool = true) throws -> Bool {
            let copy = try WritableBuffer(name: "test")
            let file = copy.descriptor
            try file.write(bytes.span, at: 0)
            if isSealed { _ = try copy.seal() }
            return (try? ValidityView(verifying: file, slots: 8))?.isKnown == true
        }
        #expect(try isBelieved(sound))
        #expect(try !isBelieved(sound, isSealed: false))
        let writable = try WritableBuffer(name: "test", size: sound.count).descriptor
        try writable.write(sound.span, at: 0)
        #expect(throws: SystemError.self) { try ValidityView(verifying: writable, slots: 8) }
        for place in 0..<12 {
            var other = sound
            other[place] ^= 1
            #expect(try !isBelieved(other))
        }
    }

    @Test func theClockIsTheBrokers() throws {
        func tenth() -> UInt32 { UInt32(Instant.now.nanoseconds / 100_000_000) }
        try eventually("the clock shows this tenth of a second, or the previous one, as it is milliseconds late") {
            let before = tenth()
            return (before - 1...before).contains(ValidityView.now) && tenth() == before
        }
    }

    @Test func aWordEndsBeforeItsTime() {
        func expiry(_ nanoseconds: Int64) -> UInt32 {
            ValidityWord(generation: 1, validUntil: Instant(nanoseconds: nanoseconds)).expiry
        }
        #expect(expiry(1_020_000_000) == 10)
        #expect(expiry(1_019_999_999) == 9)
        #expect(expiry(0) == 0)
        #expect(expiry(.max) == .max)
        let word = ValidityWord(generation: .max, expiry: 5)
        #expect(ValidityWord(rawValue: word.rawValue) == word)
    }
}
