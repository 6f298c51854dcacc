import IPCProtocol
import IPCTransport
import LinuxSystem

/// Writes pixels as a file. The codec runs in a decode worker that is started for this one picture: no process that
/// talks to clients or the network has one.
enum PictureEncoder {
    /// Why a picture could not be encoded.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// Encodes the picture that `image` describes from its buffer into `file`, in the format that `name` ends in.
    static func encode(
        _ image: ImageReply, _ pixels: ImageReply.Pixels, from buffer: FileDescriptor, to file: FileDescriptor,
        named name: String
    ) throws {
        guard var launcher = WorkerLauncher() else {
            throw Failure(description: "imgworker is neither beside imgbroker nor in ../libexec/imgbroker")
        }
        guard let geometry = PixelGeometry(width: image.width, height: image.height), geometry.stride == pixels.stride
        else { throw Failure(description: "its rows have a strange length") }
        if CurrentProcess.uid == 0 { launcher.user = CurrentProcess.findUser("nobody") }
        let (worker, socket) = try launcher.start(.decode)
        defer {
            worker.send(Signals.kill)
            _ = worker.waitForExit(milliseconds: 1000)
        }
        let channel = FrameChannel(socket: socket)
        let job = EncodeJob(
            id: 1, format: format(of: name), geometry: geometry, pixelFormat: pixels.pixelFormat, alpha: pixels.alpha)
        try channel.sendMessage(DecodeOrder.encode(job), descriptors: [buffer, file])
        while let (report, _) = try channel.receiveMessage(DecodeReport.self) {
            switch report {
            case .ready, .header: continue
            case .finished: return
            case .failed(_, let error): throw Failure(description: error.message)
            }
        }
        throw Failure(description: "the encoder ended early")
    }

    private static func format(of name: String) -> Encoding.Format {
        let name = name.lowercased()
        if name.hasSuffix(".jpg") || name.hasSuffix(".jpeg") { return .jpeg }
        return name.hasSuffix(".webp") ? .webp : .png
    }
}
