import BrokerCore
import HTTPValues
import IPCProtocol
import IPCTransport
import JSONCoding
import LinuxSystem
import SharedCache
import SystemValues
import WorkerProtocol

struct WorkerLauncher {
    /// The folder with the workers' programs.
    let directory: String
    /// The workers' programs as they were at the start, except those that were missing. Others may take their names
    /// while the broker runs, and would not understand it.
    private var programs: [WorkerKind: FileDescriptor]
    /// The user that workers become; nil to stay the broker's.
    var user: (uid: UInt32, gid: UInt32)?
    /// The settings of the workers that are started from now on.
    var configuration = Configuration()
    /// The path of the cache directory; nil without a disk tier.
    var cachePath: String?
    /// The cache directory, opened before the rights to reach it are given up; nil where its path is enough.
    var cacheDirectory: FileDescriptor?
    /// Closes the broker's ends of control sockets, which a worker may have sent descriptors to.
    var closing: (@Sendable (Int32) -> Void)?

    /// Looks for the workers' executables beside this one, then in `../libexec/imgbroker`.
    init?() {
        guard let place = SiblingProgram.folders.first(where: { CurrentProcess.exists($0 + "/imgworker") }) else {
            return nil
        }
        directory = place
        programs = Dictionary(
            uniqueKeysWithValues: WorkerKind.permanent.compactMap { kind in
                (try? FileDescriptor.open(programAt: place + "/" + kind.program)).map { (kind, $0) }
            })
        openLoaders()
    }

    /// The families whose programs are installed, besides the plain one.
    var families: Set<CodecFamily> { Set(programs.keys.compactMap(\.family)).subtracting([.plain]) }

    /// Opens the programs of the families other than the plain one that are installed now.
    mutating func openLoaders() {
        for family in CodecFamily.optional {
            programs[.loader(family)] = try? FileDescriptor.open(programAt: directory + "/" + family.program)
        }
    }

    func has(_ kind: WorkerKind) -> Bool { programs[kind] != nil }

    /// The descriptor of a started process's control socket.
    static let controlDescriptor: Int32 = 3

    static func startAgain(_ arguments: [String]) throws(SystemError) -> (ChildProcess, FileDescriptor) {
        guard let path = CurrentProcess.executablePath else { throw SystemError("readlink") }
        // This leads to the program's file also when another has taken its name.
        let program = try FileDescriptor.open(programAt: "/proc/self/exe")
        let (own, control) = try UnixSocket.pair()
        return (try ChildProcess(program, path: path, arguments: arguments, control: control), own)
    }

    /// Keeps the open cache directory if this process, as the user that it has become, does not reach it by its path.
    mutating func keepCacheDirectoryIfOutOfReach() {
        guard let path = cachePath, cacheDirectory != nil else { return }
        do {
            _ = try FileSystem.status(of: path)
            cacheDirectory = nil
        } catch {
            cachePath = FileSystem.path(ofDescriptor: Self.controlDescriptor + 1)
        }
    }

    /// Starts a worker or a fork server, and returns it with this end of its control socket. Only that process has the
    /// other end, so the socket ends when it exits.
    func start(
        _ kind: WorkerKind, asForkServer isForkServer: Bool = false
    ) throws(SystemError) -> (ChildProcess, FileDescriptor) {
        let (own, control) = try UnixSocket.pair(disposal: closing)
        var arguments = ["--parent", "\(CurrentProcess.pid)"]
        if let user { arguments += ["--uid", "\(user.uid)", "--gid", "\(user.gid)"] }
        let (limits, level, format) = (configuration.limits, configuration.logLevel.rawValue, configuration.logFormat)
        arguments += ["--log-format", format.notation.rawValue]
        if format.isForJournal { arguments.append("--log-journal") }
        if format.showsFullURLs { arguments.append("--log-full-urls") }
        let pixels = limits.maxPixels
        if configuration.hasStrictSandbox { arguments.append("--strict-sandbox") }
        var more: FileDescriptor?
        switch kind {
        case .fetch:
            arguments += ["--log-level", level]
            for range in configuration.allowedAddresses { arguments += ["--allow-address", range.description] }
            if configuration.fetchPrivate != FetchPrivate() {
                arguments.append("--private")
                more = try SealedBuffer(copying: configuration.fetchPrivate.encoded, name: "imgbroker-private")
                    .descriptor
            }
            arguments += ["--min-speed", "\(configuration.slowestBody)"]
            // Larger than a download's limit, so that the latter is reached first.
            if limits.maxDownloadBytes <= Int.max >> 1 {
                arguments += ["--largest-file", "\(limits.maxDownloadBytes + (1 << 20))"]
            }
        case .decode, .loader:
            // The largest encoded image; no limit on overflow.
            if pixels <= Int.max >> 5 { arguments += ["--largest-file", "\(Encoding.mostBytes(ofPixels: pixels))"] }
            arguments += ["--memory", "\(limits.workerMemoryBytes)"]
            if isForkServer { arguments.append("--fork-server") }
        case .cache:
            arguments += [
                "--directory", cachePath ?? "", "--disk-limit", "\(limits.diskBytes)",
                "--raster-limit", "\(configuration.rasterLimitBytes)", "--max-age", "\(configuration.maxAge ?? -1)",
                "--largest-body", "\(max(1, limits.maxDownloadBytes, min(pixels, Int.max / 4) * 4))",
                "--log-level", level,
            ]
            for extra in configuration.extraCacheDirectories { arguments += ["--extra-directory", extra] }
            more = cacheDirectory
        case .tier:
            arguments += ["--log-level", level]
            for server in configuration.sharedServers { arguments += ["--server", server] }
            if let key = configuration.sharedKey {
                arguments.append("--key")
                more = try SealedBuffer(copying: key, name: "imgbroker-private").descriptor
            }
        }
        // The broker reports crashes; a backtrace could be made hostile by the image.
        var environment = ["SWIFT_BACKTRACE=enable=no", "LC_ALL=C", "PATH=/usr/bin:/bin"]
        // The server finds all functions of its libraries once, so that no worker reads their tables of symbols: 1.3
        // MiB less resident in each.
        if isForkServer { environment.append("LD_BIND_NOW=1") }
        let child = try ChildProcess(
            programs[kind], path: directory + "/" + kind.program, arguments: arguments, environment: environment,
            control: control, more: more)
        return (child, own)
    }
}

extension WorkerKind {
    var program: String {
        switch self {
        case .fetch: "imgfetch"
        case .decode: CodecFamily.plain.program
        case .loader(let family): family.program
        case .cache: "imgcache"
        case .tier: "imgtier"
        }
    }

    /// Whether its messages carry descriptors.
    var sendsDescriptors: Bool { self == .cache || self == .tier }
}

/// A worker as the event loop sees it.
final class WorkerProcess {
    let id: WorkerID
    let kind: WorkerKind
    let child: ChildProcess
    let channel: FrameChannel
    /// The memory for results that it was given; nil before the first one.
    var memory: WorkerMemory?
    /// Whether its reports are no longer read.
    var isUnheard = false
    /// The processor time in milliseconds that it had used when its job began, or up to `measuringPause` before.
    private(set) var processorTimeBefore = 0
    private var processorTimeReadAt = Instant(nanoseconds: 0)
    /// When its last report was read.
    var heardAt = Instant(nanoseconds: 0)
    var measuredAt = Instant(nanoseconds: 0)
    var hasEnded = false
    var isWatchedForWriting = false
    /// Whether orders are queued that are sent before the event loop waits.
    var hasUnsentOrders = false

    /// The microseconds between two looks at the kernel's figures of a busy worker: each costs as much as a message.
    static let measuringPause = 20_000
    /// The microseconds for which a worker that has reported something is taken to live.
    private static let livingAfterReport = 5_000

    /// Notes the processor time that the worker has used before a job, unless it was read just now.
    func jobBegins(at now: Instant) {
        if now.microseconds(since: processorTimeReadAt) < Self.measuringPause { return }
        processorTimeReadAt = now
        processorTimeBefore = child.processorMilliseconds ?? 0
    }

    func wasHeard(at now: Instant) -> Bool { now.microseconds(since: heardAt) < Self.livingAfterReport }

    /// A process that was just started, with this end of its control socket. Descriptors are received from the two
    /// tiers only, which `closing` closes.
    init(
        _ kind: WorkerKind, id: WorkerID, _ child: ChildProcess, _ socket: FileDescriptor,
        closing: @escaping @Sendable (Int32) -> Void
    ) throws(SystemError) {
        try socket.setNonBlocking()
        self.child = child
        channel = FrameChannel(socket: socket, descriptors: kind.sendsDescriptors ? .disposed(closing) : .left)
        channel.joinsDescriptors = true
        self.id = id
        self.kind = kind
    }
}

/// A job's product: a memfd that a worker fills, then a sealed buffer that is to be published; or bytes that came in a
/// frame, or that are to be copied from a worker's memory.
final class Product {
    private var writable: WritableBuffer?
    private(set) var sealed: SealedBuffer?
    /// The bytes that came in a frame; nil with a memfd.
    private(set) var bytes: [UInt8]?
    /// The part of a worker's memory that it is in, and the bytes of the result there.
    private(set) var region: WorkerMemory.Region?
    private var regionBytes = 0
    private var mayShrink = false

    /// A memfd of `size` bytes, or of at most `size` with `mayShrink`; without a size, one that grows.
    init(name: String, size: Int? = nil, mayShrink: Bool = false) throws(SystemError) {
        writable = try WritableBuffer(name: name, size: size, mayShrink: mayShrink)
        self.mayShrink = mayShrink
    }

    init(_ region: WorkerMemory.Region) { self.region = region }
    /// A buffer that another process made and sealed.
    init(sealed: SealedBuffer) { self.sealed = sealed }
    init(bytes: [UInt8]) { self.bytes = bytes }

    /// Its bytes in a sealed memfd; nil if it was never filled.
    func takeSealed() throws(SystemError) -> SealedBuffer? {
        if let sealed { return sealed }
        guard let bytes = try takeBytes() else { return nil }
        return try SealedBuffer(copying: bytes, name: "imgbroker-pixels")
    }

    /// Its bytes in this process's memory; nil if it was never filled.
    func takeBytes() throws(SystemError) -> [UInt8]? {
        if let bytes { return bytes }
        // A memfd may be larger than it was said to be.
        guard let count = region == nil ? sealed?.size : regionBytes else { return nil }
        return unsafe try [UInt8](unsafeUninitializedCapacity: count) { (target, filled) throws(SystemError) in
            unsafe try copy(to: UnsafeMutableRawBufferPointer(target))
            filled = count
        }
    }

    /// Copies as many of its bytes as `target` has; fails with `EINVAL` when there are fewer.
    func copy(to target: UnsafeMutableRawBufferPointer) throws(SystemError) {
        if let region { return unsafe try region.copy(to: target) }
        var count = 0
        if let bytes {
            count = min(bytes.count, target.count)
            unsafe target.copyBytes(from: bytes.prefix(count))
        } else if let sealed {
            count = unsafe try sealed.descriptor.read(into: target, at: 0)
        }
        if count < target.count { throw SystemError("pread", code: SystemError.invalidArgument) }
    }

    /// The descriptor for the worker; nil once it is sealed.
    var descriptor: FileDescriptor? { writable?.descriptor }

    /// Seals the memfd if its worker has not, as each of ours does. It must have `size` bytes then. A part of a
    /// worker's memory must have room for as many. Fails with `EINVAL` otherwise.
    func seal(size: Int) throws(SystemError) {
        if let region {
            if size > region.place.room { throw SystemError("fcntl", code: SystemError.invalidArgument) }
            regionBytes = size
            return
        }
        guard let buffer = try writable.take()?.seal(keeping: mayShrink ? size : nil), buffer.size == size else {
            throw SystemError("fcntl", code: SystemError.invalidArgument)
        }
        sealed = buffer
    }
}
