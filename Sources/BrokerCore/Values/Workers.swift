package import SystemValues
package import WorkerProtocol

/// The kinds of worker.
package enum WorkerKind: Hashable, Sendable {
    /// Downloads, many concurrently.
    case fetch
    /// Decodes the formats of the plain family, one image at a time, and identifies files.
    case decode
    /// Decodes the formats of another family, one image at a time.
    case loader(CodecFamily)
    /// The disk tier, one process.
    case cache
    /// The shared tier, one process.
    case tier

    /// The kinds of which workers always exist.
    package static let permanent: [WorkerKind] = [.fetch, .decode, .cache, .tier]
    /// Those that are started for jobs that wait.
    static let loaders = CodecFamily.optional.map { WorkerKind.loader($0) }
    static let all = permanent + loaders

    /// Its index in `all`.
    var place: Int {
        switch self {
        case .fetch: 0
        case .decode: 1
        case .cache: 2
        case .tier: 3
        case .loader: Self.all.firstIndex(of: self)!
        }
    }

    /// The workers that decode a family's formats.
    package static func decoder(of family: CodecFamily) -> WorkerKind {
        family == .plain ? .decode : .loader(family)
    }

    /// The family of a decode worker; nil for another one.
    package var family: CodecFamily? {
        switch self {
        case .fetch, .cache, .tier: nil
        case .decode: .plain
        case .loader(let family): family
        }
    }

    /// The name in reports and in the log.
    package var name: String {
        switch self {
        case .fetch: "fetch"
        case .decode: "decode"
        case .loader(let family): "decode-\(family.rawValue)"
        case .cache: "cache"
        case .tier: "tier"
        }
    }
}

/// How a worker's process exited, as far as the shell can tell.
package enum WorkerExit: Equatable {
    /// It could not be started.
    case notStarted(String)
    case ended(ProcessExit, ExitCircumstances = ExitCircumstances())

    /// Whether the kernel killed it for want of memory.
    var isMemoryShort: Bool {
        if case .ended(.signal(SignalNumber.kill), let found) = self { found.isMemoryShort } else { false }
    }
}

/// The circumstances of a process's exit.
package struct ExitCircumstances: Equatable {
    /// Whether the kernel has killed processes for want of memory since the last exit.
    package var isMemoryShort: Bool
    /// The process's peak memory in bytes.
    package var peakBytes: Int

    package init(isMemoryShort: Bool = false, peakBytes: Int = 0) {
        (self.isMemoryShort, self.peakBytes) = (isMemoryShort, peakBytes)
    }
}
