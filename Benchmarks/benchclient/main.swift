import Glibc
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LinuxSystem

// benchclient keep SOCKET URL COUNT SIDE: requests the images URL/0 … URL/COUNT-1 within SIDE × SIDE pixels (0: in full
// size) from a broker, reads a byte of every page, keeps all images, prints "done" and waits for the end of its input.
//
// benchclient feed SOCKET URL COUNT SIDE DEPTH [FIRST]: the same from URL/FIRST on with DEPTH requests in flight, but
// prints "ready" and waits for a line first, releases each image, and prints the milliseconds of its own processor time
// instead of "done".

// benchclient files SOCKET FOLDER COUNT SIDE EPOCHS SEED KEEPS: requests the files FOLDER/0 … FOLDER/COUNT-1 in random
// order, EPOCHS times, within SIDE × SIDE pixels (0: in full size), as RGB; with KEEPS 1 it keeps all images, and
// requests each once. Otherwise it keeps the mappings for the next epoch by the client library, which asks the broker
// about changed files only. Prints "done" and waits for the end of its input.

let words = CommandLine.arguments
if words.count == 9, words[1] == "files", let count = Int(words[4]), let side = Int(words[5]),
    let epochs = Int(words[6]),
    let seed = UInt64(words[7])
{
    let files = Files(folder: words[3], count: count, side: side, epochs: epochs, keepsImages: words[8] == "1")
    // Each kept image takes a descriptor.
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let keeping = files.keepsImages ? nil : ImageBroker.Keeping(images: count, bytes: .max / 2, descriptors: count)
    try files.run(client: ImageBroker(path: words[2], keeping: keeping), order: SplitMix(state: seed))
    exit(0)
}
guard words.count >= 6, let count = Int(words[4]), let side = Int(words[5]),
    let feed = Feed(words: words, count: count, side: side)
else {
    print("usage: benchclient keep SOCKET URL COUNT SIDE | benchclient feed SOCKET URL COUNT SIDE DEPTH [FIRST]")
    exit(2)
}
try feed.run(client: ImageBroker(path: words[2]))

/// Numbers that follow from a seed.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}

/// Reads a byte of every page.
func touch(_ image: BrokerImage) -> Int {
    image.withBytes { bytes in
        var sum = 0
        for offset in stride(from: 0, to: bytes.byteCount, by: 4096) {
            sum &+= Int(bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self))
        }
        return sum
    }
}

/// Receives the next image.
func receiveImage(_ client: ImageBroker) throws -> BrokerImage {
    while true {
        switch try client.receive() {
        case .image(_, let image): return image
        case .progress, .event: break
        case .reply(let reply):
            print("unexpected: \(reply)")
            exit(1)
        }
    }
}

/// Prints a line and waits for the next one of the input, or its end.
func say(_ line: String) {
    print(line)
    fflush(nil)
    _ = readLine()
}

/// Local files to load.
struct Files {
    let folder: String
    let count: Int
    let side: Int
    let epochs: Int
    let keepsImages: Bool

    /// As many as a batch of a training process has.
    private static let depth = 32

    func run(client: ImageBroker, order: SplitMix) throws {
        var options = GetOptions()
        if side > 0 { (options.variant.width, options.variant.height) = (side, side) }
        // As the other programs have them.
        options.variant.pixelFormat = .rgb8
        var (order, sum) = (order, 0)
        var kept: [BrokerImage] = []
        for epoch in 0..<epochs where epoch == 0 || !keepsImages {
            let numbers = (0..<count).shuffled(using: &order)
            var (sent, received) = (0, 0)
            while received < count {
                while sent < min(count, received + Self.depth) {
                    let file = try FileDescriptor.open(readingAt: "\(folder)/\(numbers[sent])")
                    sent += 1
                    if let image = client.kept(file: file, options) {
                        sum &+= touch(image)
                        received += 1
                    } else {
                        _ = try client.send(getFile: file, options)
                    }
                }
                if received == sent { continue }
                let image = try receiveImage(client)
                sum &+= touch(image)
                if keepsImages { kept.append(image) }
                received += 1
            }
        }
        try client.returnLeases()
        say("done \(sum)")
        withExtendedLifetime(kept) {}
    }
}

/// The images to load, and what to do with them.
struct Feed {
    let url: String
    /// The number of the first image.
    let first: Int
    let count: Int
    let options: GetOptions
    /// The number of requests in flight.
    let depth: Int
    /// Whether all images are kept until the end.
    let keepsImages: Bool

    init?(words: [String], count: Int, side: Int) {
        var options = GetOptions()
        if side > 0 { (options.variant.width, options.variant.height) = (side, side) }
        // The benchmarks' own server has a certificate of its own.
        options.allowInvalidCertificates = words[3].hasPrefix("https:")
        switch (words[1], words.count) {
        // 16 as in a scrolling list.
        case ("keep", 6): (depth, first, keepsImages) = (16, 0, true)
        case ("feed", 7), ("feed", 8):
            guard let number = Int(words[6]), number > 0, let first = words.count == 8 ? Int(words[7]) : 0 else {
                return nil
            }
            (depth, self.first, keepsImages) = (number, first, false)
        default: return nil
        }
        (url, self.count, self.options) = (words[3], count, options)
    }

    func run(client: ImageBroker) throws {
        if keepsImages {
            var images: [BrokerImage] = []
            let sum = try load(client) { images.append($0) }
            say("done \(sum)")
            return
        }
        say("ready")
        let begun = processorMilliseconds
        let sum = try load(client) { _ in }
        try client.returnLeases()
        say("\(processorMilliseconds - begun) \(sum)")
    }

    /// Loads all images. Returns a sum of their bytes, so that reading them has an effect.
    private func load(_ client: ImageBroker, each: (BrokerImage) -> Void) throws -> Int {
        var (sent, received, sum) = (0, 0, 0)
        while received < count {
            while sent < min(count, received + depth) {
                _ = try client.send(get: try SourceURL("\(url)/\(first + sent)"), options)
                sent += 1
            }
            let image = try receiveImage(client)
            sum &+= touch(image)
            each(image)
            received += 1
        }
        return sum
    }

    /// The processor time of this process so far.
    private var processorMilliseconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e3 + Double(time.tv_nsec) / 1e6
    }
}
