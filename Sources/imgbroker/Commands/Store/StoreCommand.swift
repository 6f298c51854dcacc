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

    private static let options = CommandOption<Request>.table([
        "--content-type TYPE": .value(
            "the media type of an encoded image; its format is detected from its bytes anyway"
        ) { $0.contentType = try $1.contentType() },
        "--pixels WxH": .value(
            "the file has rows of pixels of an image of this size, from the top, e.g. 640x480"
        ) { $0.layout.size = try $1.sizeInPixels() },
        "--pixel-format F": .choice(
            "of --pixels, the bytes of a pixel: rgba8 (default), bgra8, rgb8 or gray8", \.layout.format),
        "--alpha MODE": .value(
            "of --pixels, the colours of rgba8 and bgra8: straight (default) or premultiplied",
            choices: [AlphaMode.straight, .premultiplied].map(\.rawValue)
        ) { $0.layout.alpha = try $1.alpha("straight or premultiplied") },
        "--stride N": .number(
            "of --pixels, the bytes from one row to the next (default: no padding)", 1...StoredPixels.maximumStride,
            \.layout.stride),
        "--offset N": .number(
            "of --pixels, the bytes before the first row (default: 0)", 0...StoredPixels.maximumRest, \.layout.offset),
        "--storage TIER": .choice("of --pixels: memory (default), or disk to keep them there, too", \.storage),
        "--json": .flag("print the result as a JSON object", \.asJSON),
        "--socket PATH": .socket(\.socketPath),
    ])

    static let help = options.help()

    static let usage = help.usage(
        "store URL [FILE] [OPTION]...", purpose,
        remark: "The image is fresh for as long as the broker's --max-ttl; imgbroker ctl remove URL removes it.\n",
        status: status)

    struct Request {
        private(set) var url = SourceURL(canonical: "")
        private(set) var file = "-"
        fileprivate(set) var contentType: String?
        /// The layout of rows of pixels; nil for an encoded image.
        private(set) var pixels: StoredPixels?
        fileprivate(set) var storage = StoreRequest.Storage.memory
        fileprivate(set) var asJSON = false
        fileprivate(set) var socketPath: String?
        /// The parts of the layout.
        fileprivate var layout:
            (size: PixelGeometry?, stride: Int?, offset: Int, format: PixelFormat, alpha: AlphaMode?) =
                (nil, nil, 0, .rgba8, nil)

        /// Parses the words after `store`; nil for `--help`.
        init?(_ words: some Sequence<String>) throws(UsageError) {
            guard let (flags, operands) = try Arguments.read(words, of: "store", options, into: &self) else {
                return nil
            }
            guard (1...2).contains(operands.count) else {
                throw UsageError("store needs a URL, and a file or standard input")
            }
            url = try CtlRequest.url(operands[0])
            if operands.count == 2 { file = operands[1] }
            guard let size = layout.size else {
                let ofAll: Set = ["--content-type", "--json", "--socket"]
                if let flag = flags.last(where: { !ofAll.contains($0) }) {
                    throw UsageError("\(flag) goes with --pixels only")
                }
                return
            }
            if contentType != nil { throw UsageError("--content-type does not go with --pixels") }
            if layout.alpha != nil, !layout.format.hasAlpha {
                throw UsageError("--alpha does not go with \(layout.format.rawValue), which has none")
            }
            let least = size.stride(in: layout.format)
            if let stride = layout.stride, stride < least {
                throw UsageError("--stride needs \(least) or more for rows of \(size.width) pixels, not \(stride)")
            }
            pixels = StoredPixels(
                size, stride: layout.stride, offset: layout.offset, pixelFormat: layout.format,
                alpha: layout.alpha ?? .straight)
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
