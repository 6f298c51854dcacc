import IPCProtocol
import IPCTransport
import LinuxSystem
import SharedCache
import SystemValues
import WorkerProtocol

/// Writes picture files. The codecs are in an `imgworker` of its own.
struct PictureEncoder {
    private let channel: FrameChannel
    private let worker: ChildProcess
    private let household: Household

    /// Starts the worker at `path`.
    init(_ path: String, household: Household) throws {
        let (own, control) = try UnixSocket.pair()
        self.household = household
        worker = try household.start(path, ["--parent", "\(CurrentProcess.pid)"], control: control)
        channel = FrameChannel(socket: own)
    }

    /// Writes `canvas` to the file at `path`.
    func write(_ canvas: Canvas, as format: Encoding.Format, to path: String) throws {
        guard let geometry = PixelGeometry(width: canvas.width, height: canvas.height) else {
            throw DemoFailure("\(path) would be too large")
        }
        let pixels = try WritableBuffer(name: "imgdemo", size: geometry.bytes)
        try unsafe canvas.bytes.withUnsafeBytes { try unsafe pixels.descriptor.write($0, at: 0) }
        let job = EncodeJob(id: 1, format: format, geometry: geometry, pixelFormat: .rgba8, alpha: .straight)
        let file = try FileDescriptor.create(at: path)
        try channel.sendMessage(DecodeOrder.encode(job), descriptors: [pixels.descriptor, file])
        while let (report, _) = try channel.receiveMessage(DecodeReport.self) {
            switch report {
            case .ready, .header: continue
            case .finished: return
            case .failed(_, let error): throw DemoFailure("\(path): \(error.message)")
            }
        }
        throw DemoFailure("imgworker ended early")
    }

    /// Ends the worker.
    func end() {
        worker.send(SignalNumber.terminate)
        _ = household.waitForEnd(of: worker, milliseconds: 2000)
    }
}
