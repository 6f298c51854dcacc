import HTTPValues
import IPCProtocol
import ImageBrokerClient
import JSONCoding
import LinuxSystem
import SharedCache

/// `imgbroker store`: puts an image into the broker's cache as a client of the broker.
enum StoreCommand {
    static let purpose = """
        Puts an image into the broker's cache as if it had been loaded from URL: an encoded image, or
        rows of pixels. FILE is a local file, or "-" for standard input, which is read without a FILE.
        """

    static let status = "0; 1 if the image is refused; 2 for an invalid command line; 3 when no broker answers."

    static let help = FlagHelp.table([
        "--content-type TYPE": "the media type of an encoded image; its format is detected from its bytes anyway",
        "--pixels WxH": "the file has rows of pixels of an image of this size, from the top, e.g. 640x480",
        "--pixel-format F": .init(
            "of --pixels, the bytes of a pixel: rgba8 (default), bgra8, rgb8 or gray8", oneOf: PixelFormat.self),
        "--alpha MODE": .init(
            "of --pixels, the colours of rgba8 and bgra8: straight (default) or premultiplied",
            choices: [AlphaMode.straight, .premultiplied].map(\.rawValue)),
        "--stride N": "of --pixels, the bytes from one row to the next (default: no padding)",
        "--offset N": "of --pixels, the bytes before the first row (default: 0)",
        "--storage TIER": .init(
            "of --pixels: memory (default), or disk to keep them there, too", oneOf: StoreRequest.Storage.self),
        "--json": "print the result as a JSON object",
        "--socket PATH": CommandConnection.socketHelp,
        "--help": "show this and exit",
    ])

    static let usage = help.usage(
        "store URL [FILE] [OPTION]...", purpose,
        remark: "The image is fresh for as long as the broker's --max-ttl; imgbroker ctl remove URL removes it.\n",
        status: status)

    struct Request: Equatable {
        var url: SourceURL
        var file = "-"
        var contentType: String?
        /// The layout of rows of pixels; nil for an encoded image.
        var pixels: StoredPixels?
        var storage = StoreRequest.Storage.memory
        var asJSON = false
        var socketPath: String?

        /// Parses the words after `store`; nil for `--help`.
        init?(_ words: some Sequence<String>) throws(UsageError) {
            var operands: [String] = []
            var (size, stride, offset): (PixelGeometry?, Int?, Int?)
            var (format, alpha): (PixelFormat?, AlphaMode?)
            /// A flag that goes with `--pixels` only, if one was given.
            var ofPixels: String?
            var arguments = Arguments(words)
            while let word = try arguments.next() {
                switch word {
                case .operand(let word): operands.append(word)
                case .flag("--help"), .flag("-h"): return nil
                case .flag("--json"): asJSON = true
                case .flag("--socket"): socketPath = try arguments.given("--socket").path()
                case .flag("--content-type"): contentType = try arguments.given("--content-type").contentType()
                case .flag("--pixels"): size = try arguments.given("--pixels").sizeInPixels()
                case .flag(let flag):
                    switch flag {
                    case "--pixel-format": format = try arguments.given(flag).choice()
                    case "--alpha": alpha = try arguments.given(flag).alpha("straight or premultiplied")
                    case "--stride": stride = try arguments.given(flag).number(in: 1...StoredPixels.maximumStride)
                    case "--offset": offset = try arguments.given(flag).number(in: 0...StoredPixels.maximumRest)
                    case "--storage": storage = try arguments.given(flag).choice()
                    default: throw .unknown(option: flag, among: help, of: "imgbroker store")
                    }
                    ofPixels = flag
                }
            }
            guard (1...2).contains(operands.count) else {
                throw UsageError("store needs a URL, and a file or standard input")
            }
            url = try CtlRequest.url(operands[0])
            if operands.count == 2 { file = operands[1] }
            guard let size else {
                if let ofPixels { throw UsageError("\(ofPixels) goes with --pixels only") }
                return
            }
            if contentType != nil { throw UsageError("--content-type does not go with --pixels") }
            let pixelFormat = format ?? .rgba8
            if alpha != nil, !pixelFormat.hasAlpha {
                throw UsageError("--alpha does not go with \(pixelFormat.rawValue), which has none")
            }
            let least = size.stride(in: pixelFormat)
            if let stride, stride < least {
                throw UsageError("--stride needs \(least) or more for rows of \(size.width) pixels, not \(stride)")
            }
            pixels = StoredPixels(
                size, stride: stride, offset: offset ?? 0, pixelFormat: pixelFormat, alpha: alpha ?? .straight)
        }
    }

    /// The most bytes that are read; the broker's own limit is lower by default.
    private static let longest = 1 << 30

    static func run(_ words: some Sequence<String>) throws(UsageError) -> Int32 {
        guard let request = try Request(words) else { return StandardOutput.writeHelp(usage) }
        do throws(ClientError) {
            let broker = try CommandConnection.open(request.socketPath)
            let content = try content(of: request.file)
            if let pixels = request.pixels {
                try broker.store(pixels: pixels, in: content, as: request.url, storage: request.storage)
            } else {
                try broker.store(content, as: request.url, contentType: request.contentType)
            }
        } catch {
            return CommandConnection.report(error, asJSON: request.asJSON)
        }
        CommandConnection.report(text: "stored \(request.url.text)\n", asJSON: request.asJSON) {
            $0.member("url", request.url.text)
            $0.member("stored", true)
        }
        return CommandStatus.done
    }

    /// Returns a sealed copy of a file, because a file could change while the broker uses it.
    private static func content(of file: String) throws(ClientError) -> SealedBuffer {
        let title = file == "-" ? "standard input" : file
        do {
            let source = try file == "-" ? FileDescriptor.standardInput() : ImageSource.open(file)
            let buffer = try WritableBuffer(name: "imgbroker-store")
            guard try buffer.descriptor.appendAll(of: source, upTo: longest) else {
                throw ClientError.refused(WireError(.tooLarge, "\(title) is longer than \(longest) bytes."))
            }
            return try buffer.seal()
        } catch let error as ClientError {
            throw error
        } catch {
            throw .refused(WireError(.badRequest, "\(title) could not be read: \(error)."))
        }
    }
}

extension GivenValue {
    fileprivate func sizeInPixels() throws(UsageError) -> PixelGeometry {
        let sides = text.split(separator: "x", omittingEmptySubsequences: false).map { side in
            side.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? Int(side) ?? 0 : 0
        }
        let range = 1...PixelGeometry.maximumSide
        guard sides.count == 2, sides.allSatisfy(range.contains),
            let size = PixelGeometry(width: sides[0], height: sides[1])
        else { throw needs("WIDTHxHEIGHT in pixels, each from 1 to \(PixelGeometry.maximumSide)") }
        return size
    }

    fileprivate func contentType() throws(UsageError) -> String {
        guard (1...255).contains(text.utf8.count) else { throw needs("a media type of 1 to 255 bytes") }
        return text
    }
}
