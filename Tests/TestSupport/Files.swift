internal import Foundation
package import LinuxSystem
internal import SharedCache

package func contents(of file: FileDescriptor) throws -> [UInt8] { try file.read(try file.size(), at: 0) }

/// A memfd with bytes, without seals or sealed for good.
package func memoryFile(_ bytes: [UInt8], isSealed: Bool = false) throws -> FileDescriptor {
    let file = try WritableBuffer(name: "test").descriptor
    try file.write(bytes.span, at: 0)
    if isSealed { try file.seal() }
    return file
}

/// What `gzip` with these options makes of bytes.
package func gzip(_ bytes: [UInt8], _ options: String = "-n") throws -> [UInt8] {
    let directory = try TemporaryDirectory()
    let (plain, packed) = (directory.file("plain"), directory.file("packed"))
    try Data(bytes).write(to: URL(filePath: plain))
    _ = try run("/bin/sh", ["-c", "gzip \(options) <\"$0\" >\"$1\"", plain, packed])
    return try Array(Data(contentsOf: URL(filePath: packed)))
}
