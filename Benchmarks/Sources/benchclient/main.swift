import Glibc
import HTTPValues
import IPCProtocol
import ImageBrokerClient

// benchclient keep SOCKET URL COUNT SIDE: requests the images URL/0 … URL/COUNT-1 within SIDE × SIDE pixels (0: in full size)
// from a broker, reads a byte of every page, keeps all images, prints "done" and waits for the end of its input.
//
// benchclient feed SOCKET URL COUNT SIDE DEPTH: the same with DEPTH requests in flight, but prints "ready" and waits for a
// line first, releases each image, and prints the milliseconds of its own processor time instead of "done".

let words = CommandLine.arguments
guard words.count >= 6, let count = Int(words[4]), let side = Int(words[5]),
    let feed = Feed(words: words, count: count, side: side)
else {
    print("usage: benchclient keep SOCKET URL COUNT SIDE | benchclient feed SOCKET URL COUNT SIDE DEPTH")
    exit(2)
}
try feed.run(client: ImageBroker(path: words[2]))

/// The images to load, and what to do with them.
struct Feed {
    let url: String
    let count: Int
    let options: GetOptions
    /// The number of requests in flight.
    let depth: Int
    /// Whether all images are kept until the end.
    let keepsImages: Bool

    init?(words: [String], count: Int, side: Int) {
        var options = GetOptions()
        if side > 0 {
            options.variant.width = side
            options.variant.height = side
        }
        // The benchmarks' own server has a certificate of its own.
        options.allowInvalidCertificates = words[3].hasPrefix("https:")
        switch (words[1], words.count) {
        // 16 as in a scrolling list.
        case ("keep", 6): (depth, keepsImages) = (16, true)
        case ("feed", 7):
            guard let number = Int(words[6]), number > 0 else { return nil }
            (depth, keepsImages) = (number, false)
        default: return nil
        }
        (url, self.count, self.options) = (words[3], count, options)
    }

    func run(client: ImageBroker) throws {
        if keepsImages {
            var images: [BrokerImage] = []
            let sum = try load(client) { images.append($0) }
            finish(saying: "done \(sum)")
            return
        }
        print("ready")
        fflush(nil)
        _ = readLine()
        let begun = processorMilliseconds
        let sum = try load(client) { _ in }
        try client.returnLeases()
        finish(saying: "\(processorMilliseconds - begun) \(sum)")
    }

    /// Loads all images. Returns a sum of their bytes, so that reading them has an effect.
    private func load(_ client: ImageBroker, each: (BrokerImage) -> Void) throws -> Int {
        var (sent, received, sum) = (0, 0, 0)
        while received < count {
            while sent < min(count, received + depth) {
                _ = try client.send(get: try SourceURL("\(url)/\(sent)"), options)
                sent += 1
            }
            switch try client.receive() {
            case .image(_, let image):
                image.withBytes { bytes in
                    for offset in stride(from: 0, to: bytes.byteCount, by: 4096) {
                        sum &+= Int(bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self))
                    }
                }
                each(image)
                received += 1
            case .progress, .event: break
            case .reply(let reply):
                print("unexpected: \(reply)")
                exit(1)
            }
        }
        return sum
    }

    private func finish(saying line: String) {
        print(line)
        fflush(nil)
        _ = readLine()
    }

    /// The processor time of this process so far.
    private var processorMilliseconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e3 + Double(time.tv_nsec) / 1e6
    }
}
