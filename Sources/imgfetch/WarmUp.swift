internal import CTransfer
import HTTPValues
internal import IPCTransport
internal import LinuxSystem
import WorkerProtocol

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
