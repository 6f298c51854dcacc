internal import CTransfer
internal import Glibc
import HTTPValues
internal import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
internal import Sandbox
import WorkerProtocol
internal import WorkerRuntime

/// The download worker's options, and what it acquires before the sandbox.
struct FetchProgram: WorkerProgram, Equatable {
    static let name = "imgfetch"

    /// `--allow-address`: ranges of addresses that may be connected to although they are not public.
    var allowedAddresses: [AddressRange] = []
    /// `--proxy`: the URL (http, https or socks5h) of the proxy that all transfers go through; nil for none. With a proxy
    /// `allowedAddresses` has no effect, because only the proxy's address is connected to: the proxy decides which
    /// addresses may be reached through it.
    var proxy: String?
    /// `--min-speed`: a body that is slower fails.
    var speedFloor = SpeedFloor()

    mutating func readOption(_ name: String, from arguments: inout WorkerArguments) throws(UsageError) -> Bool {
        switch name {
        case "--allow-address": allowedAddresses.append(try arguments.value { AddressRange($0) })
        case "--proxy": proxy = try arguments.value(Self.proxy)
        case "--min-speed": speedFloor.bytesPerSecond = try arguments.number(in: 0...Int.max)
        default: return false
        }
        return true
    }

    /// Returns `text` when it is the URL of a proxy. With each of these schemes the proxy resolves the names in URLs.
    private static func proxy(_ text: String) -> String? {
        let parts = text.split(separator: "://", maxSplits: 1)
        guard parts.count == 2, ["http", "https", "socks5h"].contains(parts[0].lowercased()),
            (try? TransferURL("http://" + parts[1])) != nil
        else { return nil }
        return text
    }

    /// An error of libcurl's initialisation.
    struct InitialisationFailure: Error, CustomStringConvertible {
        let description = "libcurl cannot be initialised"
    }

    func makeService(channel: FrameChannel, log: Log) throws -> FetchLoop {
        // TLS libraries write to sockets that the other end has closed.
        signal(SIGPIPE, SIG_IGN)
        _ = CurrentProcess.raiseDescriptorLimit()
        guard ctransfer_global_init() == CURLE_OK else { throw InitialisationFailure() }
        return try FetchLoop(
            channel: channel, policy: AddressPolicy(allowed: allowedAddresses), proxy: proxy, speedFloor: speedFloor,
            log: log)
    }
}

extension FetchLoop: WorkerService {
    var sandboxPolicy: SandboxPolicy { .fetch }

    func warmUp() throws {
        try WarmUp.run()
        // No library can be loaded from within the sandbox.
        ctransfer_load_libraries()
    }

    func ready(in report: SandboxReport) -> FetchReport { .ready(report) }

    func serve() throws { try run() }
}
