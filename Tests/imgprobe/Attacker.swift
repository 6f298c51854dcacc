internal import CProbe
internal import Digests
internal import Glibc
internal import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
internal import Sandbox
import WorkerProtocol

/// Acts as `imgworker`, or as `imgworker-avif` for files whose words follow 32 bytes of an AVIF's first box, with a
/// compromised decoder: the image to decode names an attack. A broker finds it under the name imgworker in its own
/// folder.
///
///     good WIDTH HEIGHT VALUE     decodes: every byte of the pixels is VALUE
///     keep WIDTH HEIGHT VALUE     the same, and keeps the descriptor
///     hold WIDTH HEIGHT VALUE     the same as `good`, but waits for SIGUSR1 before it fills the pixels
///     claim DIGEST WIDTH HEIGHT VALUE     the same as `good`, but says that the bytes have another digest
///     ATTACK ...                  any other word; a refused attack is reported as a decoding error
///
/// Files in its folder change it: `unconfined` (it enters no sandbox), `build` (its contents are the reported build).
struct Attacker {
    private let channel: FrameChannel
    private let format: ImageFormat
    /// The environment and the open descriptors at the start.
    private let census: String
    private var kept: Output?
    /// The memory for small results, which the broker copies.
    private var memory: FileDescriptor?

    /// Where a result is written: a memfd, or a place in `memory`.
    private struct Output {
        let file: FileDescriptor
        let place: ResultPlace?

        func size() throws -> Int { try place?.room ?? file.size() }

        func write(_ bytes: Span<UInt8>, at offset: Int) throws {
            try file.write(bytes, at: offset + (place?.offset ?? 0))
        }
    }

    static func run(_ arguments: [String]) -> Never {
        // Workers of this kind are started as programs.
        if arguments.contains("--fork-server") { _exit(2) }
        let folder = arguments[0].lastIndex(of: "/").map { String(arguments[0][..<$0]) } ?? "."
        func value(of name: String) -> Int? {
            arguments.firstIndex(of: name).flatMap { Int(arguments[$0 + 1]) }
        }
        var names: [String] = []
        var variable = unsafe environ
        while let text = unsafe variable.pointee {
            unsafe names.append(String(cString: text))
            unsafe variable += 1
        }
        let open = (0..<4096).filter { fcntl($0, F_GETFD) >= 0 }
        let census = "environment: \(names.sorted().joined(separator: " ")); descriptors: \(open)"
        if value(of: "--parent") != nil { try? CurrentProcess.dieWithParent() }
        let build = (try? FileDescriptor.open(readingAt: folder + "/build").readToEnd()) ?? "probe"
        cprobe_prepare()
        var report: SandboxReport?
        if !CurrentProcess.exists(folder + "/unconfined") {
            var policy = SandboxPolicy.decode
            policy.largestFile = value(of: "--largest-file")
            policy.memory = value(of: "--memory")
            report = policy.enter().report
        }
        let channel = FrameChannel(socket: FileDescriptor(owning: 3))
        var attacker = Attacker(
            channel: channel, format: arguments[0].hasSuffix("-avif") ? .avif : .png, census: census)
        do {
            try channel.sendMessage(DecodeReport.ready(report, build: build))
            while let (order, descriptors) = try channel.receiveMessage(DecodeOrder.self) {
                switch order {
                case .decode(let job, let place):
                    let words = try Self.words(in: channel.frameBytes ?? Self.bytes(of: descriptors[0]))
                    try attacker.decode(job, words, descriptors.first, room: place?.room ?? 0)
                case .identify(let job, let early, let place):
                    let bytes = try channel.frameBytes ?? Self.bytes(of: descriptors[0])
                    guard let early, let file = place == nil ? descriptors.last : attacker.memory else {
                        try attacker.identify(job, bytes)
                        continue
                    }
                    try attacker.identify(job, bytes, early, into: Output(file: file, place: place))
                case .memory: attacker.memory = descriptors[0]
                case .output, .refuse: _exit(1)
                }
            }
            _exit(0)
        } catch {
            _exit(1)
        }
    }

    private static func words(in bytes: [UInt8]) -> [String] {
        let start = ImageFormat(sniffing: bytes) == .avif ? 32 : 0
        return String(decoding: bytes.dropFirst(start).prefix(200), as: UTF8.self).split(separator: " ").map(
            String.init)
    }

    private static func bytes(of file: FileDescriptor) throws -> [UInt8] { try file.read(try file.size(), at: 0) }

    /// Seals the seals alone: no others can be added, and the bytes can be written.
    private static func sealSeals(of file: FileDescriptor) {
        // F_ADD_SEALS and F_SEAL_SEAL, of the kernel's interface.
        _ = fcntl(file.raw, 1033, 1)
    }

    private func identify(
        _ job: Int, _ bytes: [UInt8], _ early: EarlyDecode, into output: Output
    ) throws {
        guard let attack = Self.words(in: bytes).first, attack.hasPrefix("early-") else {
            return try identify(job, bytes)
        }
        // In the worker's memory only the size can be wrong.
        let size =
            output.place.flatMap { PixelGeometry(width: 1024, height: $0.room / 4096 + 1) }
            ?? PixelGeometry(width: 8, height: 8)!
        guard let result = early.job.transform.plan(for: size)?.result else { return try identify(job, bytes) }
        if output.place == nil {
            let pixels = [UInt8](repeating: 1, count: result.bytes)
            try output.write(pixels.span, at: 0)
            if attack == "early-half-sealed" {
                Self.sealSeals(of: output.file)
            } else {
                try output.file.truncate(to: result.bytes / 2)
                try output.file.seal()
            }
        }
        let plan = DecodePlan(header: ImageHeader(format: format, geometry: size), result: result, workingBytes: 0)
        try channel.sendMessage(
            DecodeReport.identified(
                job: job, digest: SHA256.hexadecimalDigest(of: bytes),
                early: EarlyResult(plan, DecodeResult(bytes: result.bytes))))
    }

    private func identify(_ job: Int, _ bytes: [UInt8]) throws {
        let words = Self.words(in: bytes)
        let digest = words.first == "claim" ? words[1] : SHA256.hexadecimalDigest(of: bytes)
        try channel.sendMessage(DecodeReport.identified(job: job, digest: digest))
    }

    /// Works on an image that states its attack, whose file has come unless the frame had its bytes.
    private mutating func decode(_ job: DecodeJob, _ words: [String], _ file: FileDescriptor?, room: Int) throws {
        if job.partialBytes != nil, let file { return try change(file, for: job) }
        let numbers = words.dropFirst().compactMap { Int($0) }
        switch words.first ?? "" {
        case "good", "keep", "claim":
            guard let output = try begin(job, width: numbers[0], height: numbers[1]) else { return }
            try fill(output, job, with: UInt8(truncatingIfNeeded: numbers[2]))
            if words[0] == "keep" { kept = output }
        case "hold":
            cprobe_expect_release()
            guard let output = try begin(job, width: numbers[0], height: numbers[1]) else { return }
            cprobe_wait_for_release()
            try fill(output, job, with: UInt8(truncatingIfNeeded: numbers[2]))
        case "census": try refuse(job, census)
        case "stand": try stand(job, before: words[1])
        case "exit": _exit(3)
        // Messages.
        case "nonsense": try channel.send(try Frame.ofType("nonsense"))
        case "no-json": try channel.send([0, 0, 0, 3, 0x7B, 0x7B, 0x7B])
        case "no-frame": try channel.send([255, 255, 255, 255])
        case "other-job": try refuse(DecodeJob(id: job.id + 1000), "not mine")
        case "ready-again": try channel.sendMessage(DecodeReport.ready(nil))
        case "unasked-result": try channel.sendMessage(DecodeReport.finished(job: job.id, DecodeResult(bytes: 64)))
        case "second-header":
            guard try begin(job) != nil else { return }
            _ = try begin(job)
        case "other-plan":
            let size = PixelGeometry(width: 8, height: 8)!
            let header = ImageHeader(format: format, geometry: size)
            let result = PixelGeometry(width: 9, height: 8)!
            try channel.sendMessage(
                DecodeReport.header(job: job.id, DecodePlan(header: header, result: result, workingBytes: 0)))
        case "large-at-once", "other-plan-at-once":
            let isLarge = words[0] == "large-at-once"
            let size = PixelGeometry(width: 1024, height: isLarge ? room / 4096 + 1 : 1)!
            let result = isLarge ? size : PixelGeometry(width: 9, height: 8)!
            let plan = DecodePlan(header: ImageHeader(format: format, geometry: size), result: result, workingBytes: 0)
            try channel.sendMessage(
                DecodeReport.decoded(job: job.id, EarlyResult(plan, DecodeResult(bytes: result.bytes))))
        case "greed": _ = try begin(job, workingBytes: numbers[0])
        case "wrong-size":
            if try begin(job) != nil {
                try channel.sendMessage(DecodeReport.finished(job: job.id, DecodeResult(bytes: 252)))
            }
        case "half-sealed", "early-half-sealed", "early-short":
            guard let output = try begin(job, width: Self.largeSide, height: Self.largeSide) else { return }
            Self.sealSeals(of: output.file)
            try fill(output, job, with: 1)
        case "descriptors":
            let report = DecodeReport.failed(job: job.id, WireError(.decodeFailed, "refused: descriptors"))
            guard let any = file ?? memory else { return }
            try channel.enqueue(report, descriptors: Array(repeating: any, count: 50))
            try channel.flush()
        case "flood":
            while true { try refuse(job, "again") }
        // Buffers.
        case "resize":
            guard let output = try begin(job) else { return }
            errno = 0
            let grown = ftruncate(output.file.raw, 16 << 20) < 0 ? errno : 0
            let shrunk = ftruncate(output.file.raw, 1) < 0 ? errno : 0
            try refuse(job, "refused: \(grown) \(shrunk)")
        case "write-kept":
            let status = kept.map { unsafe pwrite($0.file.raw, "x", 1, $0.place?.offset ?? 0) } ?? 0
            try refuse(job, "refused: \(status < 0 ? errno : 0)")
        case "map":
            guard let output = try begin(job, width: Self.largeSide, height: Self.largeSide) else { return }
            let start = unsafe mmap(nil, 256, PROT_READ | PROT_WRITE, MAP_SHARED, output.file.raw, 0)
            if unsafe start == MAP_FAILED { return try refuse(job, "refused: \(errno)") }
            try channel.sendMessage(DecodeReport.finished(job: job.id, DecodeResult(bytes: try output.size())))
        // Time and memory.
        case "spin": while true { cprobe_pause(0) }
        case "silence": while true { cprobe_pause(1) }
        case "allocate":
            try refuse(job, "refused after \(cprobe_fill_memory() >> 20) MiB")
        case "allocate-shared":
            let start = unsafe mmap(nil, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
            try refuse(job, "refused: \(unsafe start == MAP_FAILED ? errno : 0)")
        case "allocate-growing":
            let start = unsafe mmap(
                nil, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0)
            try refuse(job, "refused: \(unsafe start == MAP_FAILED ? errno : 0)")
        case "allocate-trap":
            var all: [[UInt8]] = []
            while true { all.append([UInt8](repeating: 1, count: 1 << 20)) }
        case "signal-itself": try refuse(job, "refused: \(cprobe_signal_itself(Int32(numbers[0])))")
        case let attack:
            let status = unsafe cprobe_attempt(attack)
            try refuse(job, "refused: \(status)")
        }
    }

    /// Attempts to change a body that is still being received. The pixels count the successes.
    private mutating func change(_ body: FileDescriptor, for job: DecodeJob) throws {
        var successes: UInt8 = 0
        if unsafe pwrite(body.raw, "x", 1, 0) >= 0 { successes += 1 }
        if ftruncate(body.raw, 0) >= 0 { successes += 1 }
        if unsafe mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, body.raw, 0) != MAP_FAILED { successes += 1 }
        if unsafe open("/proc/self/fd/\(body.raw)", O_RDWR) >= 0 { successes += 1 }
        guard let output = try begin(job) else { return }
        try fill(output, job, with: 100 + successes)
    }

    private func refuse(_ job: DecodeJob, _ text: String) throws {
        try channel.sendMessage(DecodeReport.failed(job: job.id, WireError(.decodeFailed, text)))
    }

    /// The side of images that have a memfd of their own.
    private static let largeSide = 512

    /// Reports a header. Returns the output to fill, or nil when the image is not wanted.
    private mutating func begin(
        _ job: DecodeJob, width: Int = 8, height: Int = 8, workingBytes: Int = 0
    ) throws -> Output? {
        guard let size = PixelGeometry(width: width, height: height), let plan = job.transform.plan(for: size) else {
            return nil
        }
        let header = ImageHeader(format: format, geometry: size)
        try channel.sendMessage(
            DecodeReport.header(
                job: job.id,
                DecodePlan(
                    header: header, result: plan.result, workingBytes: workingBytes,
                    stage: job.partialBytes == nil ? nil : 1)))
        guard job.purpose == .pixels else { return nil }
        while let (order, descriptors) = try channel.receiveMessage(DecodeOrder.self) {
            switch order {
            case .memory: memory = descriptors[0]
            case .output(_, let place):
                return (place == nil ? descriptors.first : memory).map { Output(file: $0, place: place) }
            default: return nil
            }
        }
        return nil
    }

    private func fill(_ output: Output, _ job: DecodeJob, with value: UInt8) throws {
        let size = try output.size()
        let row = [UInt8](repeating: value, count: min(size, 1 << 16))
        var offset = 0
        while offset < size {
            let count = min(row.count, size - offset)
            try output.write(row.span.extracting(first: count), at: offset)
            offset += count
        }
        try channel.sendMessage(DecodeReport.finished(job: job.id, DecodeResult(bytes: size)))
    }

    /// Stops at a step and waits to be killed.
    private mutating func stand(_ job: DecodeJob, before step: String) throws {
        if step != "header" { kept = try begin(job) }
        if let output = kept, step != "filling" {
            let bytes: [UInt8] = [1, 2, 3]
            try output.write(bytes.span, at: 0)
            if step == "next" { try fill(output, job, with: 1) }
        }
        while true { cprobe_pause(1) }
    }
}
