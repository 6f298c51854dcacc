import SharedCache

@testable import imgbroker

/// Files that clients give as descriptors.
struct UploadTests {
    private static let mebibyte = 1 << 20

    /// While a part is copied nobody else is served, so a part is small however large the file is.
    @Test func `a file is copied a mebibyte at a time`() throws {
        let file = try WritableBuffer(name: "given").descriptor
        try file.allocate(3 * Self.mebibyte + 5)
        let upload = try copy(of: file)
        var missing: [Int] = []
        while upload.missing > 0 {
            #expect(try upload.copyMore())
            missing.append(upload.missing)
        }
        #expect(missing == [2 * Self.mebibyte + 5, Self.mebibyte + 5, 5, 0])
        #expect(try upload.sealed()?.size == 3 * Self.mebibyte + 5)
    }

    @Test func `a file that becomes shorter is not waited for`() throws {
        let file = try WritableBuffer(name: "given").descriptor
        try file.allocate(2 * Self.mebibyte)
        let upload = try copy(of: file)
        #expect(try upload.copyMore())
        try file.truncate(to: 1000)
        #expect(try !upload.copyMore())
    }

    /// What a copy of `file` begins as.
    private func copy(of file: FileDescriptor) throws -> Upload {
        let request = StoreRequest(id: 1, url: try SourceURL("http://origin.test/x"), payload: 0)
        guard case .file(let upload) = try Upload.look(at: file, for: request, upTo: 8 * Self.mebibyte) else {
            throw WireError(.internal, "A file that can still be changed was taken as it is.")
        }
        return upload
    }
}
