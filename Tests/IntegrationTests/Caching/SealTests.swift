/// No system call of a client can change a buffer that it received.
@Suite(.blocking, .timeLimit(.minutes(10))) struct SealTests {
    @Test(arguments: ["", #""as":"original""#]) func receivedBuffersCannotBeChanged(_ members: String) throws {
        let picture = TestPicture.gradient(width: 300, height: 200)
        let (setting, client) = try Setting(routes: ["/a": png(picture)]).withClient()
        let incoming = try client.load(setting.url("/a"), members)
        let bytes = try client.bytes(of: incoming)
        let descriptor = try #require(incoming.descriptors.first)
        let raw = descriptor.raw

        // F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE; newer kernels add one against execution.
        #expect(SealedBuffer.seals(of: descriptor) & 0b1111 == 0b1111)
        #expect(try descriptor.size() >= bytes.count)

        let length = 4096
        let shared = unsafe mmap(nil, length, PROT_READ | PROT_WRITE, MAP_SHARED, raw, 0)
        #expect(unsafe shared == MAP_FAILED)
        #expect([EPERM, EACCES].contains(errno))
        var byte: UInt8 = 0
        #expect(unsafe pwrite(raw, &byte, 1, 0) == -1)
        #expect([EPERM, EBADF].contains(errno))
        #expect(unsafe pwrite(raw, &byte, 1, off_t(bytes.count)) == -1)
        for size in [0, bytes.count - 1, bytes.count + 1] {
            #expect(ftruncate(raw, off_t(size)) == -1)
            #expect([EPERM, EINVAL, EBADF].contains(errno))
        }
        let path = "/proc/self/fd/\(raw)"
        let again = unsafe Glibc.open(path, O_RDWR | O_CLOEXEC)
        if again >= 0 {
            #expect(unsafe pwrite(again, &byte, 1, 0) == -1)
            #expect(ftruncate(again, 0) == -1)
            close(again)
        }
        #expect(try client.bytes(of: incoming) == bytes)
    }

    @Test func privateWritesStayPrivate() throws {
        let (setting, client) = try Setting(routes: ["/a": png(tile(5, side: 64))]).withClient()
        let incoming = try client.load(setting.url("/a"))
        let raw = try #require(incoming.descriptors.first).raw
        let address = unsafe mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, raw, 0)
        try #require(unsafe address != MAP_FAILED)
        unsafe memset(address!, 0, 4096)
        unsafe munmap(address!, 4096)
        let other = try setting.client()
        #expect(try other.picture(of: setting.url("/a")) == tile(5, side: 64))
    }
}

extension SealedBuffer {
    /// The seals that the kernel reports; the number of `F_GET_SEALS` is part of its interface.
    static func seals(of descriptor: FileDescriptor) -> Int32 { fcntl(descriptor.raw, 1034) }
}
