import Foundation
import Glibc
import IPCProtocol
import LinuxSystem
import SystemValues
import TestSupport
import Testing

/// The time in which others are served while the file system of a local file does not answer.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct LocalFileTimingTests {
    private let directory: TemporaryDirectory
    private let setting: Setting
    private let client: RawClient

    init() throws {
        directory = try TemporaryDirectory()
        setting = try Setting(["--max-file", "1M"], routes: ["/a": png(tile(1))])
        client = try setting.client()
    }

    private func ask(_ file: FileDescriptor, by client: RawClient) throws -> RawClient.Incoming {
        try client.ask("get", of: file)
    }

    /// Writes an image, and opens its file.
    private func file(_ picture: TestPicture) throws -> FileDescriptor {
        let path = directory.file("image.png")
        try Data(picture.png).write(to: URL(filePath: path))
        return try FileDescriptor.open(readingAt: path)
    }

    @Test(.needsSilentFileSystem) func aDeadFileSystemHoldsUpNobodyElse() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        _ = try client.load(setting.url("/a"))
        let undisturbed = try UndisturbedBroker()
        let hostile = try setting.client(as: 20_022)
        let other = try setting.client(as: 20_023)
        let file = try file(tile(5))
        let begun = Instant.now
        for id in 1...5 {
            try hostile.send(#"{"type":"get","id":\#(id),"fds":1,"totalTimeoutMs":1000}"#, with: try silent.open())
        }
        var slowest = 0
        for _ in 0..<50 {
            slowest = max(slowest, try milliseconds { _ = try client.load(setting.url("/a"), #""delivery":"none""#) })
            try undisturbed.load()
            #expect(try other.picture(try ask(file, by: other)) == tile(5))
        }
        #expect(slowest < 200 + 10 * undisturbed.slowest)
        #expect(try hostile.answer(to: 1).error?.code == .timeout)
        #expect(Instant.now.microseconds(since: begun) >= 1_000_000)
    }

    /// The process of a file system stops in the middle of a read: the request ends when its time has passed, others are served at once,
    /// and so is the same user.
    @Test(.needsSilentFileSystem) func aFileSystemThatStopsWhileItIsRead() throws {
        let contents = [UInt8](repeating: 1, count: 1_000_000)
        let stopping = try SilentFileSystem(contents: contents, answering: 400_000)
        defer { stopping.end() }
        _ = try client.load(setting.url("/a"))
        let undisturbed = try UndisturbedBroker()
        let owner = try setting.client(as: 20_024)
        let other = try setting.client(as: 20_025)
        let good = try file(tile(5))
        let id = owner.newID()
        try owner.send(#"{"type":"get","id":\#(id),"fds":1,"totalTimeoutMs":3000}"#, with: try stopping.open())
        try eventually("a part was read") { stopping.isSilent }
        var slowest = 0
        for _ in 0..<50 {
            slowest = max(slowest, try milliseconds { _ = try client.load(setting.url("/a"), #""delivery":"none""#) })
            slowest = max(slowest, try milliseconds { _ = try ask(good, by: other).image() })
            try undisturbed.load()
        }
        #expect(slowest < 200 + 10 * undisturbed.slowest)
        #expect(try owner.picture(try ask(good, by: owner)) == tile(5))
        #expect(try owner.answer(to: id).error?.code == .timeout)
        #expect(try setting.broker.stats()[.reservedBytes] == 0)
    }
}
