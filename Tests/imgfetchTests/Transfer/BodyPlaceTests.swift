/// Small bodies come in the frame of their report; others get a file while they are received.
@Suite(.timeLimit(.minutes(10))) struct BodyPlaceTests {
    private static func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) }
    }

    @Test func `a small body that comes at once has no file`() throws {
        let body = Self.bytes(9000)
        let origin = try TestOrigin { _ in .ok(body) }
        let worker = try FetchWorker()
        for _ in 0..<3 {
            let run = try worker.run(origin.url("/"))
            #expect(run.body == body)
            #expect((run.result?.bytes, run.beginnings.count, run.progress.count) == (body.count, 1, 1))
        }
        #expect(worker.fileRequests.isEmpty)
    }

    /// Its received bytes are reported as progress only when they are in the file: a transfer could be continued from
    /// them.
    @Test func `a slow body gets a file`() throws {
        let body = Self.bytes(9000)
        let origin = try TestOrigin { _ in .ok(body).with { ($0.pieceBytes, $0.pauseMs) = (1000, 60) } }
        let worker = try FetchWorker()
        let run = try worker.run(origin.url("/"))
        #expect(run.body == body)
        #expect(worker.fileRequests == [1])
        #expect(run.progress.contains { $0.received > 0 })
    }

    /// The bytes of an interrupted body get a file in the end, so that another transfer can continue from them.
    @Test func `an interrupted small body is not lost`() throws {
        let body = Self.bytes(5000)
        let origin = try TestOrigin { request in
            .resource(body, etag: request.path == "/a" ? "\"1\"" : nil, for: request).with {
                $0.framing = .wrongLength(9000)
            }
        }
        let worker = try FetchWorker()
        let run = try worker.run(origin.url("/a"))
        #expect(run.failure?.received == body.count)
        #expect(run.body == body)
        #expect(worker.fileRequests == [1])
        // On a busy machine a body takes long enough for a file before it is interrupted.
        try eventually("an untagged body has no file") {
            let before = worker.fileRequests
            let untagged = try worker.run(origin.url("/untagged"))
            #expect(untagged.failure?.received == 0)
            return worker.fileRequests == before
        }
    }

    /// Without a file, libcurl holds a large body back; nothing of it is lost, compressed or not.
    @Test(arguments: [false, true]) func `a large body waits for its file`(isCompressed: Bool) throws {
        let body = Self.bytes(3_000_000)
        let compressed = isCompressed ? try gzip(body, "-1") : []
        let origin = try TestOrigin { _ in
            isCompressed ? .ok(compressed).adding(["Content-Encoding": "gzip"]) : .ok(body)
        }
        let worker = try FetchWorker()
        worker.holdsFilesBack = true
        let job = try worker.start(origin.url("/"))
        try worker.waitForFileRequest(of: job)
        // Another body comes meanwhile.
        let small = try TestOrigin { _ in .ok([1, 2, 3]) }
        let other = try worker.start(small.url("/"))
        #expect(try worker.wait(for: other).body == [1, 2, 3])
        try worker.sendFile(of: job)
        let run = try worker.wait(for: job)
        #expect(run.body == body)
        #expect(run.result?.bytes == body.count)
    }
}
