import Foundation
import IPCProtocol
import LocalOrigin
import TestSupport
import Testing

/// Download workers that are lost when they have sealed a body, and have not said so: nothing can be added to it.
@Suite(.blocking, .timeLimit(.minutes(10))) struct SealedBodyTests {
    @Test func bodyIsLoadedAgain() throws {
        let directory = try TemporaryDirectory()
        let (library, state) = (directory.file("seal.so"), directory.file("state"))
        try Compiler.makeLibrary(library, of: "Tests/SealShim/SealShim.c")
        try Data("1".utf8).write(to: URL(filePath: state))
        let picture = noise(width: 300, height: 200)
        let file = picture.png
        let origin = try LocalOrigin { request in
            .resource(file, etag: "\"1\"", contentType: "image/png", for: request).with {
                // Long enough for reports of progress, from which the transfer would be continued.
                ($0.pieceBytes, $0.pauseMs) = (file.count / 8, 40)
            }
        }
        defer { origin.stop() }
        let programs = try ProgramFolder([
            .fetch: .init(environment: ["LD_PRELOAD=\(library)", "SEAL_EXIT=\(state)"])
        ])
        let (broker, client) = try TestBroker(["--retries", "0"], folder: programs.path).withClient()
        #expect(try client.picture(try client.load(origin.url("/a"))) == picture)
        #expect(try String(contentsOfFile: state, encoding: .utf8) == "0")
        let report = try broker.waitUntilIdle()
        #expect((report.workerDeaths[.exit], report[.reservedBytes]) == (1, 0))
    }
}
