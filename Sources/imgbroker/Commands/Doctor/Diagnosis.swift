import BrokerCore
import IPCProtocol
import WorkerProtocol

/// What `imgbroker doctor` knows of the machine.
struct MachineFacts {
    /// The kernel's release: "6.1.0-18-amd64".
    var kernel = ""
    var hasSeccomp = true
    /// The version of Landlock; 0 without it.
    var landlock = 1
    var canSeal = true
    /// The kernel's setting for huge pages in memfds (`shmem_enabled`); nil when it has none.
    var hugePages: String?
    /// The descriptors that a process may have, after raising its limit.
    var descriptors = 65_536
    /// The bytes of memory that processes may use.
    var memory = 8 << 30
    var hasWorkers = true
    /// The families that are not installed, besides the plain one.
    var missingFamilies: [CodecFamily] = []
    /// The resolver's configuration; nil when there is none.
    var resolver: String? = "nameserver 127.0.0.1"
    var hasCertificates = true
    /// The disk cache's directory, and the free bytes where it is or would be; nil when it cannot be made.
    var cache: (directory: String, freeBytes: Int)? = ("/var/cache/imgbroker", 100 << 30)
    /// The owner of that directory, if it exists and belongs to another user than the one that the configuration names.
    var foreignOwner: String?
    var hasTierProgram = true
    var silentServers: [String] = []
    var socket = SocketFacts.free(path: "/run/imgbroker.sock")
    var access: SocketAccess?
    /// The service of images over HTTP, and that of thumbnails; nil for one that is not installed.
    var http: HTTPService?
    var thumbnails: ThumbnailService?
    var user = "root"

    enum SocketFacts {
        case serving(path: String, version: String, Service)
        /// No broker listens there, and one could.
        case free(path: String)
        case forbidden(path: String)
        case nowhere
    }

    /// What a broker says of itself.
    struct Service {
        /// Whether workers of each kind are ready. Their sandbox is not known before.
        var hasWorkers = true
        var sandbox = "seccomp+landlock-1"
        var diskState = "on"
        /// The images that it has evicted for want of descriptors; 0 when this user may not know.
        var descriptorEvictions = 0
        /// Whether its process of the shared tier runs; nil when this user may not know, or it has no such tier.
        var isTierRunning: Bool?
    }
}

extension MachineFacts {
    /// Judges the machine for a broker with this configuration, in the order of the report.
    func findings(for configuration: Configuration) -> [Finding] {
        let limits = configuration.limits
        let findings: [Finding?] = [
            kernelFinding, sandboxFinding(limits),
            Finding(
                "shared memory", canSeal ? "memfds can be sealed" : "no sealed memfds", unless: canSeal,
                "the kernel must have memfd_create, and no filter may forbid it"),
            hugePagesFinding, descriptorFinding(limits), memoryFinding(limits),
            Finding(
                "programs", hasWorkers ? "imgfetch, imgworker and imgcache are there" : "missing", unless: hasWorkers,
                "put imgfetch, imgworker and imgcache beside imgbroker or in ../libexec/imgbroker"),
            familiesFinding, socketFinding(limits), access?.finding(for: configuration), cacheFinding(configuration),
            tierFinding(configuration), resolverFinding(configuration),
            Finding(
                "certificates", hasCertificates ? "/etc/ssl/certs/ca-certificates.crt" : "none",
                unless: hasCertificates, "install ca-certificates; without it, https is tls-failed"),
            http?.finding, thumbnails?.finding,
        ]
        return findings.compactMap { $0 }
    }

    /// What the broker at the socket says; nil without one.
    private var service: Service? { if case .serving(_, _, let service) = socket { service } else { nil } }

    private var kernelFinding: Finding {
        let numbers = kernel.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
        let isRecent = numbers.count == 2 && (numbers[0], numbers[1]) >= (5, 13)
        return Finding(
            "kernel", kernel, unless: isRecent, "imgbroker needs Linux 5.13 or newer (5.9 with --allow-unsandboxed)")
    }

    private func sandboxFinding(_ limits: BrokerLimits) -> Finding {
        let parts = [hasSeccomp ? "seccomp" : nil, landlock > 0 ? "Landlock \(landlock)" : nil].compactMap { $0 }
        let text = parts.isEmpty ? "none" : parts.joined(separator: ", ")
        return Finding(
            "sandbox", text + (limits.allowsUnsandboxed ? ", not required" : ""), unless: hasSeccomp && landlock > 0,
            "enable seccomp and Landlock in the kernel (lsm=landlock,…), or accept the risk with --allow-unsandboxed")
    }

    private var hugePagesFinding: Finding? {
        guard let hugePages else { return nil }
        let mode = hugePages.split(separator: "[").last?.prefix { $0 != "]" } ?? ""
        return Finding(
            "huge pages", "shmem_enabled is \(mode)", unless: !["always", "force"].contains(mode),
            "each small image may take 2 MB: echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    }

    private func descriptorFinding(_ limits: BrokerLimits) -> Finding {
        let needed = limits.neededDescriptors
        let evictions = service?.descriptorEvictions ?? 0
        let remedy: String? =
            if descriptors < needed {
                "\(limits.workers) decode workers need \(needed): raise the limit (LimitNOFILE=, ulimit -n)"
            } else if descriptors < 4096 {
                "few images of more than 64 KiB fit: raise the limit to 65536 (LimitNOFILE=, ulimit -n)"
            } else if evictions > 0 {
                "the broker has evicted \(evictions) images for want of them, not of memory: raise its limit (LimitNOFILE=, ulimit -n)"
            } else {
                nil
            }
        let images = limits.fitted(to: descriptors).memoryEntries
        return Finding(
            "descriptors", "\(descriptors), for at most \(images) images of more than 64 KiB in memory", remedy)
    }

    private func memoryFinding(_ limits: BrokerLimits) -> Finding {
        Finding(
            "memory", "\(ByteCount(memory)), of which images may take \(ByteCount(limits.memoryBytes))",
            unless: limits.memoryBytes <= memory / 2,
            "leave room for \(limits.workers) decoders of up to \(ByteCount(limits.workerMemoryBytes)): a smaller --memory-limit"
        )
    }

    /// No shortage: a broker may do without these formats.
    private var familiesFinding: Finding? {
        if !hasWorkers { return nil }
        let missing = missingFamilies.map { family in
            "\(family.formats.map(\.name).joined(separator: ", ")) (package \(family.package))"
        }
        return Finding("formats", missing.isEmpty ? "all" : "all but " + missing.joined(separator: ", "))
    }

    private func socketFinding(_ limits: BrokerLimits) -> Finding {
        switch socket {
        case .serving(let path, let version, let service):
            let isConfined = service.sandbox != "none" || limits.allowsUnsandboxed
            let remedy: String? =
                if !service.hasWorkers {
                    "it has no workers yet, or cannot start them: see the log"
                } else if !isConfined {
                    "its workers are not confined"
                } else if !["on", "off"].contains(service.diskState) {
                    "its disk cache is \(service.diskState): see the log"
                } else {
                    nil
                }
            let sandbox = service.hasWorkers ? "sandbox \(service.sandbox)" : "no workers"
            return Finding("broker", "\(version) serves \(path), \(sandbox), disk cache \(service.diskState)", remedy)
        case .free(let path): return Finding("broker", "none; one could listen at \(path)")
        case .forbidden(let path):
            let remedy = access?.remedy(for: user) ?? "use another user's broker, or start one with --socket"
            return Finding("broker", "\(path) does not admit you", remedy)
        case .nowhere:
            let remedy = "name one with --socket: /run cannot be written and XDG_RUNTIME_DIR is not set"
            return Finding("broker", "no place to listen", remedy)
        }
    }

    private func cacheFinding(_ configuration: Configuration) -> Finding {
        guard configuration.limits.usesDisk else { return Finding("disk cache", "off") }
        guard let cache else {
            return Finding("disk cache", "no directory that can be written", "name one with --cache-dir")
        }
        let (wanted, overflowed) = configuration.limits.diskBytes.addingReportingOverflow(
            configuration.rasterLimitBytes)
        let limits = ByteCount(overflowed ? .max : wanted)
        let text = "\(cache.directory), \(ByteCount(cache.freeBytes)) free, limits of \(limits)"
        if let foreignOwner {
            let remedy = "it belongs to \(foreignOwner): chown -R \(configuration.user ?? "USER") \(cache.directory)"
            return Finding("disk cache", text, remedy)
        }
        return Finding(
            "disk cache", text, unless: !overflowed && cache.freeBytes >= wanted,
            "the disk is full before the limits are reached: smaller --disk-limit and --raster-limit")
    }

    private func tierFinding(_ configuration: Configuration) -> Finding {
        let servers = configuration.sharedServers
        if servers.isEmpty { return Finding("shared tier", "none") }
        let silent = silentServers.joined(separator: ", ")
        let remedy: String? =
            if !hasTierProgram {
                "imgtier is missing: install the package imgbroker-tier"
            } else if !silentServers.isEmpty {
                "start memcached there and let it be reached, or take it from shared-tier: \(silent)"
            } else if service?.isTierRunning == false {
                "the broker does not use it: restart it if shared-tier is new, else see the log"
            } else {
                nil
            }
        return Finding(
            "shared tier", "\(servers.count - silentServers.count) of \(servers.count) servers answer", remedy)
    }

    private func resolverFinding(_ configuration: Configuration) -> Finding {
        if configuration.proxy != nil { return Finding("names", "resolved by the proxy") }
        let hasServer = resolver?.split(separator: "\n").contains { $0.hasPrefix("nameserver") } == true
        return Finding(
            "names", hasServer ? "/etc/resolv.conf names a server" : "no name server", unless: hasServer,
            "add a nameserver to /etc/resolv.conf; without one, hosts are dns-failed")
    }
}
