import HTTPValues
import IPCProtocol
import LinuxSystem
import LocalOrigin
import TestSupport
import Testing
import WorkerProtocol

/// Cached entries after a restart.
@Suite(.blocking, .timeLimit(.minutes(10))) struct RestartCachingTests {
    /// Starts an origin whose images have the lifetime in seconds that the query states.
    private func setting() throws -> DiskSetting {
        let setting = try DiskSetting { request in
            .resource(
                flat(Int(request.path.dropFirst()) ?? 0).png, etag: "\"1\"", cacheControl: "max-age=\(request.query)",
                contentType: "image/png", for: request)
        }
        try setting.wait(for: .on)
        return setting
    }

    private func load(_ setting: DiskSetting, _ path: String, _ members: String = "") throws -> ImageReply {
        let incoming = try setting.client.load(setting.origin.url(path), members)
        let number = path.dropFirst().split(separator: "?").first.flatMap { Int($0) } ?? 0
        #expect(try setting.client.picture(incoming) == flat(number))
        let image = try incoming.image()
        if let buffer = image.buffer { try setting.client.release([buffer]) }
        return image
    }

    @Test func storageAppliesAcrossRestarts() throws {
        let setting = try setting()
        let storages = ["both", "memory", "disk", "none"]
        for (number, storage) in storages.enumerated() {
            _ = try load(setting, "/\(number)?600", #""storage":"\#(storage)""#)
        }
        try setting.wait(for: .on, entries: 2)
        let again = try storages.indices.map { try load(setting, "/\($0)?600", #""storage":"none""#).source }
        #expect(again == [.memory, .memory, .disk, .network])
        try setting.restartUntilReady()
        let later = try storages.indices.map { try load(setting, "/\($0)?600").source }
        #expect(later == [.disk, .network, .disk, .network])
    }

    @Test func freshnessSurvivesARestart() throws {
        let setting = try setting()
        for path in ["/1?600", "/2?0", "/3?0", "/4?0"] { _ = try load(setting, path) }
        try setting.wait(for: .on, entries: 4)
        try setting.restartUntilReady()
        let before = setting.origin.requests.count
        let fresh = try load(setting, "/1?600")
        #expect((fresh.source, fresh.stale) == (.disk, false))
        let forced = try load(setting, "/2?0", #""cache":"force-cache""#)
        #expect((forced.source, forced.stale) == (.disk, true))
        #expect(try load(setting, "/3?0", #""cache":"only-if-cached""#).source == .disk)
        #expect(setting.origin.requests.count == before)
        #expect(try setting.client.failure(setting.url(5), #""cache":"only-if-cached""#).code == .notCached)
        #expect(try load(setting, "/4?0").source == .disk)
        #expect(setting.origin.requests.count == before + 1)
        #expect(setting.origin.requests.last?["If-None-Match"] == "\"1\"")
        #expect(try setting.client.stats()[.revalidated, .downloads, .diskHits] == [1, 0, 4])
    }

    @Test func refreshedFreshnessSurvivesARestart() throws {
        let setting = try DiskSetting { request in
            .resource(
                flat(1).png, etag: "\"1\"", cacheControl: request.number == 1 ? "max-age=0" : "max-age=600",
                contentType: "image/png", for: request)
        }
        try setting.wait(for: .on)
        #expect(try setting.load(1).source == .network)
        try setting.wait(for: .on, entries: 1)
        #expect(try setting.load(1).source == .memory)
        try setting.restartUntilReady()
        #expect(try setting.load(1).source == .disk)
        #expect(setting.downloads(1) == 2)
    }
}
