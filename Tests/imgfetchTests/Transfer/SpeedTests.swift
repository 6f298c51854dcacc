@testable import imgfetch

/// Bodies that are too slow.
@Suite(.timeLimit(.minutes(10))) struct SpeedTests {
    private func seconds(_ seconds: Double) -> Instant { Instant(nanoseconds: Int64(seconds * 1e9)) }

    @Test func `the mean of each period counts`() {
        var floor = SpeedFloor(bytesPerSecond: 100, seconds: 10)
        func holds(_ bytes: Int, at time: Double) -> Bool { floor.holds(afterReceiving: bytes, at: seconds(time)) }
        #expect(holds(1, at: 0))
        #expect(holds(0, at: 9.9))
        // 1000 bytes in ten seconds, all in one burst, are enough; earlier bytes are not counted.
        #expect(holds(1000, at: 10))
        #expect(holds(10, at: 10.1))
        #expect(holds(1, at: 20))
        #expect(holds(998, at: 20.1))
        #expect(!holds(1, at: 20.2))
        // A longer pause requires more bytes after it.
        #expect(holds(1, at: 40.2))
        #expect(holds(2009, at: 40.3))
        #expect(holds(1, at: 60))
        #expect(!holds(1900, at: 60.3))
    }

    @Test func `another body restarts the measurement`() {
        var floor = SpeedFloor(bytesPerSecond: 100, seconds: 10)
        func holds(at time: Double) -> Bool { floor.holds(afterReceiving: 1, at: seconds(time)) }
        #expect(holds(at: 0))
        floor.startOver()
        #expect(holds(at: 100))
        #expect(holds(at: 110))
        #expect(!holds(at: 110.1))
    }

    @Test func `zero means no floor`() {
        var floor = SpeedFloor(bytesPerSecond: 0, seconds: 1)
        func holds(at time: Double) -> Bool { floor.holds(afterReceiving: 0, at: seconds(time)) }
        #expect(holds(at: 0))
        #expect(holds(at: 1000))
    }

    @Test func `a slow body fails, a fast one does not`() throws {
        let body = [UInt8](repeating: 7, count: 15_000)
        let origin = try TestOrigin { request in
            .ok(body).with { ($0.pieceBytes, $0.pauseMs) = (request.path == "/drops" ? 1 : 1000, 100) }
        }
        // The worker's clock is 30 times as fast, so that a period takes one second instead of 30. In its time the
        // steady body has 333 bytes a second.
        let directory = try TemporaryDirectory()
        let library = directory.file("clock.so")
        try Compiler.makeLibrary(library, of: "Tests/ClockShim/ClockShim.c")
        let worker = try FetchWorker(
            arguments: ["--min-speed", "33"], environment: ["LD_PRELOAD=\(library)", "FAST_CLOCK=30"])
        let drops = try worker.run(origin.url("/drops"))
        drops.expect(.timeout)
        #expect(drops.error?.isRetryable == true)
        #expect(try worker.run(origin.url("/steady")).body == body)
    }
}
