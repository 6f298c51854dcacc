import IPCTransport

@testable import ImageDecoding

/// The worker as a process behind a socket.
@Suite(.timeLimit(.minutes(10))) struct WorkerProcessTests {
    private let worker: TestWorker
    private var channel: FrameChannel { worker.channel }
    private let picture = TestPicture.gradient(width: 300, height: 200, transparent: true)
    private let png: [UInt8]

    init() throws {
        worker = try TestWorker()
        png = picture.png
    }

    private func next() throws -> DecodeReport { try worker.next() }

    private func header(_ job: DecodeJob) throws -> ImageHeader { try worker.plan(job, try memoryFile(png)).header }

    private func failure(of job: Int) throws -> ErrorCode {
        let report = try next()
        guard case .failed(job, let error) = report else { throw WireError(.internal, "no failure: \(report)") }
        return error.code
    }

    private func order(_ order: DecodeOrder, _ descriptors: [FileDescriptor] = [], bytes: [UInt8]? = nil) throws {
        try worker.order(order, descriptors, bytes: bytes)
    }

    @Test func consecutiveJobs() throws {
        let geometry = try #require(PixelGeometry(width: 300, height: 200))
        let header = ImageHeader(format: .png, geometry: geometry)
        let job = DecodeJob(Transform(pixelFormat: .bgra8))
        let expected = picture.premultiplied.bgra
        for id in 1...20 {
            // A job that fails, one that only describes, and one that is refused.
            try order(.decode(DecodeJob(id: id)), [try memoryFile(Array(png.prefix(30)))])
            #expect(try failure(of: id) == .truncated)
            #expect(try self.header(DecodeJob(id: id, purpose: .describe)) == header)
            #expect(try self.header(DecodeJob(id: id)) == header)
            try order(.refuse(job: id))
            // A job that succeeds, into a buffer that can be sealed afterwards.
            var wanted = job
            wanted.id = id
            #expect(try self.header(wanted) == header)
            let buffer = try WritableBuffer(name: "test", size: geometry.bytes)
            let pixels = buffer.descriptor
            try order(.output(job: id), [pixels])
            #expect(try next() == .finished(job: id, DecodeResult(bytes: geometry.bytes)))
            #expect(try contents(of: pixels) == expected.bytes)
            _ = try buffer.seal()
            // The same result, encoded.
            wanted.encoding = Encoding(.png)
            #expect(try decode(try encoded(wanted), .bgra8, .premultiplied) == expected)
        }
    }

    /// Runs a job for frames, and returns their premultiplied pixels.
    private func frames(_ file: [UInt8], _ job: DecodeJob) throws -> [UInt8] {
        try contents(of: worker.run(job, try memoryFile(file)).output)
    }

    /// A job for the frames that follow goes on with the decoder of the job before: it does not look at its file.
    @Test func theNextFramesAreDecodedFromWhereTheOthersEnded() throws {
        let sample = AnimationSample.all[0]
        let shown = sample.shown.map(\.premultiplied.bytes)
        let other = [UInt8](picture.png)
        var job = DecodeJob(Transform(frames: .range(FrameRange(first: 0, count: 1))))
        #expect(try frames(sample.file, job) == shown[0])
        (job.id, job.after) = (2, 1)
        job.transform.frames = .range(FrameRange(first: 1, count: 1))
        #expect(try frames(other, job) == shown[1])
        // Not after another job, for other frames or with another order of bytes.
        (job.id, job.after) = (3, 1)
        job.transform.frames = .range(FrameRange(first: 2, count: 1))
        try order(.decode(job), [try memoryFile(other)])
        #expect(try failure(of: 3) == .badRequest)
        for (id, change) in [
            (4, { (job: inout DecodeJob) in job.transform.pixelFormat = .bgra8 }),
            (6, { (job: inout DecodeJob) in job.transform.frames = .range(FrameRange(first: 0, count: 1)) }),
        ] {
            var begin = DecodeJob(id: id, transform: Transform(frames: .range(FrameRange(first: 0, count: 1))))
            #expect(try frames(sample.file, begin) == shown[0])
            begin.transform.frames = .range(FrameRange(first: 1, count: 1))
            (begin.id, begin.after) = (id + 1, id)
            change(&begin)
            try order(.decode(begin), [try memoryFile([1, 2, 3])])
            #expect(try failure(of: id + 1) == .unsupportedFormat)
        }
    }

    private func encoded(_ job: DecodeJob) throws -> [UInt8] {
        let (_, result, output) = try worker.run(job, try memoryFile(png))
        return Array(try contents(of: output).prefix(result.bytes))
    }

    @Test func `the report on a result tells the time of each part of the work, in microseconds`() throws {
        let job = DecodeJob(Transform(width: 100), encoding: Encoding(.png))
        let start = ContinuousClock.now
        let size = try worker.plan(job, try memoryFile(png)).outputBytes(job.transform, job.encoding)
        try order(.output(job: 1), [try WritableBuffer(name: "test", size: size).descriptor])
        guard case .finished(1, let result) = try worker.nextWithTimes() else {
            throw WireError(.internal, "no result")
        }
        let times = result.times
        #expect(times.codec > 0 && times.encode > 0)
        let parts = times.codec + times.scale + times.steps + times.encode
        #expect(.microseconds(parts) <= ContinuousClock.now - start)
    }

    /// The report on a file that is to be identified, and decoded into `output` or a memfd of a mebibyte.
    private func identify(
        _ file: [UInt8], into output: FileDescriptor? = nil, refused: [String] = [],
        _ change: (inout DecodeJob) -> Void = { _ in }
    ) throws -> (digest: String, early: EarlyResult?) {
        var job = DecodeJob(id: 7, transform: Transform(pixelFormat: .bgra8))
        change(&job)
        let output = try output ?? WritableBuffer(name: "test", size: 1 << 20).descriptor
        try order(.identify(job: 7, early: EarlyDecode(job, refused: refused)), [try memoryFile(file), output])
        guard case .identified(7, let digest, let early, nil) = try next() else {
            throw WireError(.internal, "no digest")
        }
        return (digest, early)
    }

    /// One order and one report identify and decode a small image; the buffer can be sealed afterwards.
    @Test func smallImageIsDecodedWithItsDigest() throws {
        try order(.identify(job: 1), [try memoryFile(png)])
        guard case .identified(1, let digest, nil, nil) = try next() else { throw WireError(.internal, "no digest") }
        let buffer = try WritableBuffer(name: "test", size: 1 << 20, mayShrink: true)
        let answer = try identify(png, into: buffer.descriptor)
        #expect(answer.digest == digest)
        let early = try #require(answer.early)
        let geometry = try #require(PixelGeometry(width: 300, height: 200))
        #expect(early.plan.header == ImageHeader(format: .png, geometry: geometry))
        #expect(early.result == DecodeResult(bytes: geometry.bytes))
        try buffer.descriptor.truncate(to: geometry.bytes)
        #expect(try contents(of: buffer.descriptor) == picture.premultiplied.bgra.bytes)
        #expect(try buffer.seal().size == geometry.bytes)
    }

    @Test func `results go to their places in the memory that the worker was given, and nowhere else`() throws {
        let size = 300 * 200 * 4
        let places = [ResultPlace(offset: 4096, room: size), ResultPlace(offset: 1 << 20, room: size + 100)]
        let memory = try WritableBuffer.reusable(name: "test", size: 2 << 20)
        let unused = [UInt8](repeating: 0xEE, count: 2 << 20)
        try memory.write(unused.span, at: 0)
        try order(.memory, [memory])
        let early = EarlyDecode(DecodeJob(id: 7, transform: Transform(pixelFormat: .bgra8)))
        try order(.identify(job: 7, early: early, at: places[0]), [], bytes: png)
        guard case .identified(7, _, let result?, nil) = try next() else { throw WireError(.internal, "no result") }
        #expect(result.result == DecodeResult(bytes: size))
        // As the answer to a header.
        _ = try header(DecodeJob(id: 8, transform: Transform(pixelFormat: .bgra8)))
        try order(.output(job: 8, at: places[1]))
        #expect(try next() == .finished(job: 8, DecodeResult(bytes: size)))
        let expected = picture.premultiplied.bgra.bytes
        var wanted = unused
        for place in places { wanted.replaceSubrange(place.offset..<place.offset + size, with: expected) }
        #expect(try contents(of: memory) == wanted)
        // A place that comes with the order needs no answer to the header.
        let whole = DecodeJob(id: 6, transform: Transform(pixelFormat: .bgra8))
        try memory.write(unused.span, at: 0)
        for place in places {
            try order(.decode(whole, at: place), [], bytes: png)
            #expect(try next() == .decoded(job: 6, result))
        }
        #expect(try contents(of: memory) == wanted)
        // Where there is no room, only the digest or the header is reported, or an error.
        let small = ResultPlace(offset: 0, room: size - 1)
        try order(.identify(job: 7, early: early, at: small), [], bytes: png)
        guard case .identified(7, _, nil, nil) = try next() else { throw WireError(.internal, "a result") }
        try order(.decode(whole, at: small), [], bytes: png)
        #expect(try next() == .header(job: 6, result.plan))
        // Orders that were sent ahead wait for the answer.
        try order(.decode(DecodeJob(id: 8, transform: whole.transform), at: places[0]), [], bytes: png)
        try order(.identify(job: 7, early: early, at: places[1]), [], bytes: png)
        try order(.refuse(job: 6))
        #expect(try next() == .decoded(job: 8, result))
        guard case .identified(7, _, result, nil) = try next() else { throw WireError(.internal, "no result") }
        // The reports of earlier jobs do not wait for an image of more than a megapixel.
        let scaled = DecodeJob(id: 10, transform: Transform(width: 10, pixelFormat: .bgra8))
        try order(.decode(scaled, at: places[0]), [], bytes: TestPNG.blank(width: 1100, height: 1000))
        guard case .header(10, _) = try next() else { throw WireError(.internal, "no header") }
        try order(.refuse(job: 10))
        _ = try header(DecodeJob(id: 9, transform: Transform(pixelFormat: .bgra8)))
        try order(.output(job: 9, at: small))
        #expect(try failure(of: 9) == .internal && contents(of: memory) == wanted)
    }

    @Test func `the bytes of an image may come in the order's frame`() throws {
        let expected = try identify(png)
        try order(.identify(job: 1), [], bytes: png)
        #expect(try next() == .identified(job: 1, digest: expected.digest))
        let output = try WritableBuffer(name: "test", size: 1 << 20, mayShrink: true).descriptor
        let early = EarlyDecode(DecodeJob(id: 7, transform: Transform(pixelFormat: .bgra8)))
        try order(.identify(job: 7, early: early), [output], bytes: png)
        #expect(try next() == .identified(job: 7, digest: expected.digest, early: expected.early))
        #expect(try contents(of: output) == picture.premultiplied.bgra.bytes)
    }

    /// Of an image that is not certainly small, of a broken one and of one that is refused, only the digest is
    /// reported.
    @Test func otherImagesAreOnlyIdentified() throws {
        let digest = try identify(png).digest
        let small = try WritableBuffer(name: "test", size: 300 * 200 * 4 - 1).descriptor
        #expect(try identify(png, into: small).early == nil)
        #expect(try identify(png) { $0.maxPixels = 59_999 }.early == nil)
        #expect(try identify(png) { $0.maxWorkingBytes = 1 << 20 }.early == nil)
        for file in [png.dropLast(100), Array("no image".utf8)] { #expect(try identify(file).early == nil) }
        let prefix = String(digest.prefix(EarlyDecode.prefixLength))
        #expect(try identify(png, refused: ["0123456789abcdef", prefix]).early == nil)
        #expect(try identify(png, refused: ["0123456789abcdef"]).early != nil)
    }

    @Test func `a failure at any point releases all memory`() throws {
        let files = [
            Array(png.prefix(50)), Array(picture.jpeg(.baseline).prefix(100)),
            Array(try picture.encoded(.webp).prefix(20)), png,
        ]
        var kilobytes: [Int] = []
        for _ in 0..<2 {
            for index in 0..<3000 {
                // The last file is complete, and too large.
                let job = DecodeJob(id: index, maxPixels: 1000)
                try order(.decode(job), [try memoryFile(files[index % files.count])])
                _ = try failure(of: index)
            }
            kilobytes.append(try worker.kilobytes(of: "VmRSS"))
        }
        #expect(kilobytes[1] - kilobytes[0] < 2000)
    }

    @Test func bufferThatIsTooSmall() throws {
        _ = try header(DecodeJob(id: 1))
        try order(.output(job: 1), [try WritableBuffer(name: "test", size: 100).descriptor])
        #expect(try failure(of: 1) == .internal)
        _ = try header(DecodeJob(id: 2, purpose: .describe))
    }

    @Test func `equal programs report equal builds, which contain the product version`() throws {
        let build = try #require(worker.build)
        #expect(build.wholeMatch(of: /[0-9.]+-[0-9a-f]{16}/) != nil)
        #expect(build.hasPrefix(ProductVersion.current + "-"))
        #expect(try TestWorker().build == build)
    }

    @Test func `a lack of memory fails the job, and the next job succeeds`() throws {
        // Enough for the program and its libraries.
        let memory = 16 << 20
        let worker = try TestWorker(["--memory", "\(memory)"])
        let large = try #require(PixelGeometry(width: 2500, height: 2500))
        let file = try memoryFile(
            TestPNG(width: 2500, height: 2500, kind: .gray, depth: 8, interlaced: true) { x, _ in [x & 255] }.file)
        #expect(try worker.plan(DecodeJob(id: 1), file).workingBytes > memory)
        try worker.order(.output(job: 1), [try WritableBuffer(name: "test", size: large.bytes).descriptor])
        guard case .failed(1, let error) = try worker.next() else { throw WireError(.internal, "no failure") }
        #expect(error.code == .outOfMemory)
        _ = try worker.plan(DecodeJob(id: 2, purpose: .describe), try memoryFile(png))
    }

    /// Encoders need only the system calls that the sandbox allows, although the warm-up does not run them.
    @Test(arguments: Encoding.Format.allCases)
    func confinedWorkersEncode(format: Encoding.Format) throws {
        let geometry = try #require(PixelGeometry(width: 300, height: 200))
        let job = DecodeJob(Transform(pixelFormat: .bgra8), encoding: Encoding(format))
        #expect(try decode(try encoded(job), .bgra8, .premultiplied).geometry == geometry)
    }

    /// Decoding a small image starts before the buffer arrives. After its failure, the next job succeeds.
    @Test func failureBeforeTheBufferArrives() throws {
        let damaged = Array(png.dropLast(png.count / 2))
        for id in 1...5 {
            _ = try worker.plan(DecodeJob(id: id), try memoryFile(damaged))
            if id.isMultiple(of: 2) {
                try order(.refuse(job: id))
                continue
            }
            let size = 300 * 200 * PixelGeometry.bytesPerPixel
            try order(.output(job: id), [try WritableBuffer(name: "test", size: size).descriptor])
            #expect(try failure(of: id) == .truncated)
        }
        _ = try header(DecodeJob(id: 9, purpose: .describe))
    }

    @Test func unexpectedOrdersEndTheWorker() throws {
        try order(.refuse(job: 1))
        #expect(try channel.receiveMessage(DecodeReport.self) == nil)
    }
}

/// Workers that a fork server forks: they equal other workers and outlive the server.
@Suite(.timeLimit(.minutes(10))) struct ForkServerTests {
    private static let isRoot = CurrentProcess.uid == 0
    private static let stranger = 65_533

    private let server: ChildProcess
    private let channel: FrameChannel

    init() throws {
        (server, channel) = try Self.start()
    }

    private static func start(_ arguments: [String] = []) throws -> (ChildProcess, FrameChannel) {
        let (ours, theirs) = try UnixSocket.pair()
        let server = try ChildProcess(
            path: BuiltProducts.folder + "/imgworker", arguments: ["--strict-sandbox", "--fork-server"] + arguments,
            control: theirs)
        let channel = FrameChannel(socket: ours)
        #expect(try channel.receiveMessage(ForkReport.self)?.0 == .ready)
        return (server, channel)
    }

    private func fork(by server: FrameChannel? = nil) throws -> TestWorker {
        let channel = server ?? channel
        let (ours, theirs) = try UnixSocket.pair()
        try channel.sendMessage(ForkOrder.fork, descriptors: [theirs])
        guard case .forked(let pid)? = try channel.receiveMessage(ForkReport.self)?.0 else {
            throw WireError(.internal, "no worker")
        }
        return try TestWorker(try ChildProcess(adopting: pid), socket: ours)
    }

    private func decode(_ picture: TestPicture, on worker: TestWorker) throws {
        let job = DecodeJob(id: 7, transform: Transform(pixelFormat: .bgra8))
        let (_, result, pixels) = try worker.run(job, try memoryFile(picture.png))
        #expect(result == DecodeResult(bytes: picture.geometry.bytes))
        #expect(try contents(of: pixels) == picture.premultiplied.bgra.bytes)
    }

    /// `TestWorker` checks that the worker is confined.
    @Test(.enabled(if: CurrentProcess.uid == 0, "only root sees the descriptors of a process that nobody may trace"))
    func forkedWorkersWork() throws {
        let picture = TestPicture.gradient(width: 90, height: 50, transparent: true)
        let workers = try (0..<3).map { _ in try fork() }
        #expect(Set(workers.map(\.pid)).count == 3)
        for worker in workers {
            try decode(picture, on: worker)
            let status = ProcessStatus(pid: worker.pid)
            #expect(status.name == "imgworker")
            // Only stdin, stdout, stderr and the worker's own socket remain, without descriptors of the server or the
            // job.
            try eventually("four descriptors") { status.openFiles.count == 4 }
        }
        #expect(ProcessStatus(pid: server.pid).name == "imgworker-fork")
        #expect(workers[0].build == (try TestWorker().build))
    }

    /// The warm-up completes one-time initialization: the first job causes no more page faults than the second.
    ///
    /// What the warm-up leaves out, it leaves out in every worker. On a busy machine the kernel takes pages from some,
    /// so the best of five is compared, and 12 pages are allowed: 9 were seen beside other tests, 20 where a receive
    /// buffer was left out.
    @Test(.enabled(if: CurrentProcess.uid == 0, "only root sees the descriptors of a process that nobody may trace"))
    func firstJobCausesNoMoreFaultsThanTheSecond() throws {
        var surpluses: [Int] = []
        repeat {
            let worker = try fork()
            let status = ProcessStatus(pid: worker.pid)
            try eventually("the warm-up is over") { status.openFiles.count == 4 && status.state == "S" }
            let faults = try (0..<2).map { _ in
                let before = try #require(status.minorFaults)
                try decode(.gradient(width: 90, height: 50, transparent: true), on: worker)
                return try #require(status.minorFaults) - before
            }
            surpluses.append(faults[0] - faults[1])
        } while surpluses.last! > 12 && surpluses.count < 5
        #expect(surpluses.min()! <= 12, "\(surpluses)")
    }

    /// The kernel limits the descriptors in flight per user, so the warm-up may be unable to send any.
    @Test(.enabled("other users can be had, and python3 is there") { isRoot && Pillow.isInstalled })
    func descriptorsInFlightDoNotBlockAWorker() throws {
        let script = """
            import os, socket
            os.setgroups([]); os.setgid(\(Self.stranger)); os.setuid(\(Self.stranger))
            ours, theirs = socket.socketpair()
            for _ in range(20): socket.send_fds(ours, [b"x"], [ours.fileno()] * 10)
            os.write(3, b"x")
            os.read(3, 1)
            """
        let (ours, theirs) = try UnixSocket.pair()
        let holder = try ChildProcess(path: "/usr/bin/python3", arguments: ["-c", script], control: theirs)
        defer {
            holder.send(SignalNumber.kill)
            _ = holder.waitForExit(milliseconds: 60_000)
        }
        #expect(FrameChannel(socket: ours).waitUntilReadable(milliseconds: 60_000))
        let user = ["--uid", "\(Self.stranger)", "--gid", "\(Self.stranger)"]
        let (server, channel) = try Self.start(user)
        let worker = try fork(by: channel)
        try eventually("the warm-up is over") { ProcessStatus(pid: worker.pid).openFiles.count == 4 }
        try decode(.gradient(width: 20, height: 20), on: worker)
        channel.endSending()
        #expect(server.waitForExit(milliseconds: 60_000) == .status(0))
    }

    @Test func workersOutliveTheirServer() throws {
        let worker = try fork()
        server.send(SignalNumber.kill)
        #expect(server.waitForExit(milliseconds: 60_000) == .signal(SignalNumber.kill))
        // The server's socket is closed although a child of it is alive.
        #expect(try channel.receiveMessage(ForkReport.self) == nil)
        try decode(.gradient(width: 20, height: 20), on: worker)
    }

    @Test func endsWithItsSocket() throws {
        _ = try fork()
        channel.endSending()
        #expect(server.waitForExit(milliseconds: 60_000) == .status(0))
    }

    @Test func `only child processes can be adopted`() {
        #expect(throws: SystemError.self) { try ChildProcess(adopting: 1) }
    }
}

struct ImageSourceTests {
    private let bytes = TestPicture.gradient(width: 5, height: 5).png

    private func read(_ source: ImageSource) -> [UInt8] {
        source.withSpan { span in (0..<span.count).map { span[$0] } }
    }

    @Test func sealedAndUnsealedMemory() throws {
        let buffer = try WritableBuffer(name: "test")
        try buffer.descriptor.write(bytes.span, at: 0)
        #expect(try read(ImageSource(reading: buffer.descriptor)) == bytes)
        let descriptor = buffer.descriptor
        _ = try buffer.seal()
        #expect(read(try ImageSource(reading: descriptor)) == bytes)
    }

    @Test func `unsealed files are copied, so truncating them later has no effect`() throws {
        let file = try memoryFile(bytes)
        let source = try ImageSource(reading: file)
        try file.truncate(to: 0)
        #expect(read(source) == bytes)
    }

    @Test func emptyFiles() throws {
        let file = try memoryFile([])
        #expect(throws: WireError(.emptyImage, "There are no bytes.")) { try ImageSource(reading: file) }
    }
}

struct ConversionTests {
    @Test func premultiplyingRoundsEveryPairExactly() {
        var pixels: [UInt8] = []
        for alpha in 0...255 {
            for value in 0...255 { pixels += [UInt8(value), UInt8(255 - value), UInt8(value / 2), UInt8(alpha)] }
        }
        let straight = TestPicture(width: 256, height: 256, bytes: pixels)
        unsafe pixels.withUnsafeMutableBytes { unsafe premultiply($0) }
        for place in stride(from: 0, to: pixels.count, by: 4) {
            for channel in 0..<3 {
                let exact = Double(straight.bytes[place + channel]) * Double(straight.bytes[place + 3]) / 255
                if Double(pixels[place + channel]) != exact.rounded() { Issue.record("\(place)") }
            }
        }
        #expect(pixels == straight.premultiplied.bytes)
    }

    @Test func unpremultiplyingUndoesIt() {
        let once = TestPicture.gradient(width: 256, height: 64, transparent: true).premultiplied
        var bytes = once.bytes
        unsafe bytes.withUnsafeMutableBytes { unsafe unpremultiply($0) }
        unsafe bytes.withUnsafeMutableBytes { unsafe premultiply($0) }
        #expect(bytes == once.bytes)
    }

    @Test func flatteningBlendsOverWhite() {
        var bytes: [UInt8] = [0, 0, 0, 0, 100, 50, 0, 128, 9, 8, 7, 255]
        unsafe bytes.withUnsafeMutableBytes { unsafe flattenOverWhite($0) }
        #expect(bytes == [255, 255, 255, 255, 227, 177, 127, 255, 9, 8, 7, 255])
    }
}
