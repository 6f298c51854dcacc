internal import CTransfer
internal import Glibc
import HTTPValues
internal import IPCTransport
internal import JSONCoding
internal import LinuxSystem
internal import Sandbox
import WorkerProtocol
internal import WorkerRuntime

/// The download worker's options, and what it acquires before the sandbox.
struct FetchProgram: WorkerProgram {
    let name = "imgfetch"

    /// `--allow-address`: ranges of addresses that may be connected to although they are not public.
    var allowedAddresses: [AddressRange] = []
    /// `--private`: the rest is a `FetchPrivate` on descriptor 4. With a proxy `allowedAddresses` has no effect,
    /// because only the proxy's address is connected to: the proxy decides which addresses may be reached through it.
    var hasPrivate = false
    /// `--min-speed`: a body that is slower fails.
    var speedFloor = SpeedFloor()

    mutating func readOption(_ name: String, from arguments: inout WorkerArguments) throws(UsageError) -> Bool {
        switch name {
        case "--allow-address": allowedAddresses.append(try arguments.value { AddressRange($0) })
        case "--private": hasPrivate = true
        case "--min-speed": speedFloor.bytesPerSecond = try arguments.number(in: 0...Int.max)
        default: return false
        }
        return true
    }

    /// The descriptor of the settings that are no arguments.
    private static let privateDescriptor: Int32 = 4

    private struct Failure: Error, CustomStringConvertible {
        let description: String

        static let badPrivate = Failure(description: "descriptor 4 has no settings that can be read")
    }

    /// Reads the settings on descriptor 4, and closes it.
    private func network() throws -> NetworkSettings {
        guard hasPrivate else { return NetworkSettings() }
        let text = try FileDescriptor(owning: Self.privateDescriptor).readToEnd()
        guard let given = FetchPrivate(decoding: Array(text.utf8)[...]) else { throw Failure.badPrivate }
        var network = NetworkSettings(proxyCredentials: given.proxyCredentials)
        if let proxy = given.proxy {
            guard let url = Self.proxy(proxy) else { throw Failure.badPrivate }
            network.proxy = url
        }
        if let roots = given.roots {
            var systemFile: String?
            if let path = unsafe curl_version_info(CURLVERSION_SEVENTH).pointee.cainfo {
                systemFile = try? FileDescriptor.open(readingAt: unsafe String(cString: path)).readToEnd()
            }
            network.roots = RootCertificates(roots, systemFile: systemFile)
        }
        return network
    }

    /// Returns `text` when it is the URL of a proxy. With each of these schemes the proxy resolves the names in URLs.
    private static func proxy(_ text: String) -> String? {
        let scheme = text.prefix { $0 != ":" }
        let rest = text.dropFirst(scheme.count)
        guard ["http", "https", "socks5h"].contains(scheme.lowercased()), rest.hasPrefix("://"),
            (try? TransferURL("http" + rest)) != nil
        else { return nil }
        return text
    }

    func makeService(channel: FrameChannel, log: Log) throws -> FetchLoop {
        // TLS libraries write to sockets that the other end has closed.
        signal(SIGPIPE, SIG_IGN)
        _ = CurrentProcess.raiseDescriptorLimit()
        guard ctransfer_global_init() == CURLE_OK else { throw Failure(description: "libcurl cannot be initialised") }
        return try FetchLoop(
            channel: channel, policy: AddressPolicy(allowed: allowedAddresses), network: network(),
            speedFloor: speedFloor, log: log)
    }
}

extension FetchLoop: WorkerService {
    var sandboxPolicy: SandboxPolicy { .fetch }

    func warmUp() throws {
        try WarmUp.run()
        // No library can be loaded from within the sandbox.
        Self.loadLibraries()
    }

    /// Loads the libraries that the C library would load later: the resolver modules that /etc/nsswitch.conf names, and
    /// the library that ends threads.
    private static func loadLibraries() {
        var libraries = ["libgcc_s.so.1"]
        let settings = (try? FileDescriptor.open(readingAt: "/etc/nsswitch.conf").readToEnd()) ?? ""
        for line in settings.split(separator: "\n") where line.hasPrefix("hosts:") {
            let words = line.dropFirst(6).split { $0 == " " || $0 == "\t" }.prefix { !$0.hasPrefix("#") }
            // Without actions such as "[NOTFOUND=return]". The modules files and dns may be part of the C library.
            let modules = words.filter { word in !word.utf8.contains { "[=/".utf8.contains($0) } }
            libraries += modules.map { "libnss_\($0).so.2" }
        }
        for library in libraries { unsafe dlopen(library, RTLD_NOW) }
    }

    func ready(in report: SandboxReport) -> FetchReport { .ready(report) }

    func serve() throws { try run() }
}

/// A download without a network: ordered and reported with the broker's messages, and received through the callbacks of
/// libcurl. It does what a process does once (map pages, look up conformances in the Swift runtime, grow the heap)
/// before the sandbox, so that no client waits for it.
enum WarmUp {
    static func run() throws {
        let (ours, theirs) = try UnixSocket.pair()
        let (broker, worker) = (FrameChannel(socket: ours), FrameChannel(socket: theirs))
        let asked = FetchJob(
            id: 0, url: "https://warm.up/", headers: [HeaderField(name: "accept", value: "image/*")], maxBytes: 64)
        try broker.enqueue(FetchOrder.fetch(asked))
        // The user may have too many descriptors in flight. The process then starts cold.
        guard try broker.flush(),
            case (.fetch(let job), _)? = try worker.receiveMessage(FetchOrder.self)
        else { return }

        let transfer = try Transfer(job, policy: AddressPolicy(), network: NetworkSettings())
        for line in ["HTTP/1.1 200 OK", "Content-Type: image/png", "Content-Length: 64", "ETag: \"a\"", ""] {
            unsafe Array("\(line)\r\n".utf8).withUnsafeBytes { _ = unsafe transfer.headerLineReceived($0) }
        }
        unsafe [UInt8](repeating: 0, count: 64).withUnsafeBytes { _ = unsafe transfer.bodyReceived($0) }
        guard case .ended(let report, let body) = transfer.outcome(endedWith: CURLE_OK) else { return }
        try worker.enqueue(report, bytes: body)
        try worker.flushMessages()
        _ = try broker.receiveMessage(FetchReport.self)
    }
}
