import ImageBrokerClient

/// Loads an image in the ways that a program needs.
///
///     IMGBROKER_SOCKET=/tmp/imgbroker.sock swift run -c release imgexample URL [FILE]
@main struct Example {
    let broker = AsyncImageBroker()
    let url: String

    static func main() async throws {
        guard (2...3).contains(CommandLine.arguments.count) else { return print("usage: imgexample URL [FILE]") }
        let example = Example(url: CommandLine.arguments[1])
        do {
            try await example.withProgress()
            try await example.inSeveralSizes()
            try await example.again()
            try await example.cancelled()
            if CommandLine.arguments.count > 2 { try await example.file(at: CommandLine.arguments[2]) }
        } catch ClientError.refused(let error) {
            print("refused: \(error.code.rawValue): \(error.message)")
        }
    }

    /// Shows an image as it is downloaded.
    func withProgress() async throws {
        var options = GetOptions()
        options.progressive = true
        for try await update in broker.load(url, options: options) {
            switch update {
            case .progress(let received, let expected): print("progress: \(received) of \(expected ?? 0) bytes")
            case .preview, .partial: print("a part of the image")
            case .final(let image):
                // Read where the broker has put it: no byte is copied.
                let sum = image.withBytes { bytes in
                    bytes.byteOffsets.reduce(0) { $0 &+ Int(bytes.unsafeLoad(fromByteOffset: $1, as: UInt8.self)) }
                }
                print("loaded: \(image.reply.width) × \(image.reply.height), the sum of the bytes is \(sum)")
            }
        }
    }

    /// Loads three sizes at the same time, over one connection.
    func inSeveralSizes() async throws {
        async let small = broker.image(at: url, width: 4)
        async let medium = broker.image(at: url, width: 8)
        async let large = broker.image(at: url, width: 16, height: 16, fit: .cover)
        print("sizes:", try await [small, medium, large].map(\.reply.width))
    }

    /// Requests a fresh image repeatedly, which takes no message to the broker.
    func again() async throws {
        _ = try await broker.image(at: url, width: 8)
        let count = 100_000
        let time = try await ContinuousClock().measure {
            for _ in 0..<count { _ = try await broker.image(at: url, width: 8) }
        }
        // For code that draws and cannot wait.
        print("kept: \(broker.keptImage(at: url, width: 8) != nil), \(time / count) each")
    }

    /// Cancels a request, which ends at once.
    func cancelled() async throws {
        let task = Task { try await broker.image(at: url + "?cancelled") }
        task.cancel()
        do { _ = try await task.value } catch is CancellationError { print("cancelled") }
    }

    /// Loads a local file: the broker receives its descriptor.
    func file(at path: String) async throws {
        let image = try await broker.image(atPath: path, width: 8, height: 8, fit: .cover)
        print("file: \(image.reply.width) × \(image.reply.height)")
    }
}
