import Foundation
import Glibc
import LinuxSystem
import SharedCache
import SystemValues
import TestSupport
import Testing

/// The page from which clients read the validity of their images.
@Suite(.timeLimit(.minutes(10))) struct ValidityPageTests {
    /// The state shared with the page's thread.
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
        var sound = [UInt8](repeating: 0, count: try page.descriptor.size())
        _ = unsafe try sound.withUnsafeMutableBytes { unsafe try page.descriptor.read(into: $0, at: 0) }
        func isBelieved(_ bytes: [UInt8], isSealed: Bool = true) throws -> Bool {
            let copy = try WritableBuffer(name: "test")
            let file = copy.descriptor
            unsafe try bytes.withUnsafeBytes { unsafe try file.write($0, at: 0) }
            if isSealed { _ = try copy.seal() }
            return (try? ValidityView(verifying: file, slots: 8))?.isKnown == true
        }
        #expect(try isBelieved(sound))
        #expect(try !isBelieved(sound, isSealed: false))
        let writable = try WritableBuffer(name: "test", size: sound.count).descriptor
        unsafe try sound.withUnsafeBytes { unsafe try writable.write($0, at: 0) }
        #expect(throws: SystemError.self) { try ValidityView(verifying: writable, slots: 8) }
        for place in 0..<12 {
            var other = sound
            other[place] ^= 1
            #expect(try !isBelieved(other))
        }
    }

    @Test func theClockIsTheBrokers() {
        func tenth() -> UInt32 { UInt32(Instant.now.nanoseconds / 100_000_000) }
        let before = tenth()
        let now = ValidityView.now
        // The clock is a few milliseconds late, so it may still show the previous tenth of a second.
        #expect((before - 1...tenth()).contains(now))
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
