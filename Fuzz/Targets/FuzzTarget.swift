import IPCProtocol

/// Code that processes untrusted bytes. For any bytes it must neither crash nor violate an invariant; a violated
/// invariant ends the process.
public enum FuzzTarget: String, CaseIterable, Sendable {
    case frames
    case json
    case clientMessages = "client-messages"
    case workerMessages = "worker-messages"
    case replies
    case steps
    case diskEntries = "disk-entries"
    case sharedRecords = "shared-records"
    case httpCaching = "http-caching"
    case urls
    case responseHeaders = "response-headers"
    case metadata
    case png, jpeg, webp, gif, avif
    case avifSamples = "avif-samples"
    case heif, jp2, jxl, svg, tiff, bmp, ico, pnm, qoi, tga
    case animation
    case partial

    /// Runs the target with `bytes`.
    public func run(_ bytes: [UInt8]) {
        switch self {
        case .frames: fuzzFrames(bytes)
        case .json: fuzzJSON(bytes)
        case .clientMessages: fuzzClientMessages(bytes)
        case .workerMessages: fuzzWorkerMessages(bytes)
        case .replies: fuzzReplies(bytes)
        case .steps: fuzzSteps(bytes)
        case .diskEntries: fuzzDiskEntries(bytes)
        case .sharedRecords: fuzzSharedRecords(bytes)
        case .httpCaching: fuzzHTTPCaching(bytes)
        case .urls: fuzzURLs(bytes)
        case .responseHeaders: fuzzResponseHeaders(bytes)
        case .metadata: fuzzMetadata(bytes)
        case .png: fuzzPNG(bytes)
        case .jpeg, .webp, .gif, .avif, .heif, .jp2, .jxl, .svg, .tiff, .bmp, .ico, .pnm, .qoi, .tga:
            // These have the names of their formats.
            fuzzImage(bytes, ImageFormat(rawValue: rawValue)!)
        case .avifSamples:
            #if !WITHOUT_AVIF
                fuzzAVIFSamples(bytes)
            #endif
        case .animation: fuzzAnimation(bytes)
        case .partial: fuzzPart(bytes)
        }
    }
}

/// Ends the process unless `condition` holds.
func expect(_ condition: Bool, _ invariant: String) {
    if !condition { fatalError("violated: \(invariant)") }
}

/// Bytes read from the front, for the parameters that a target needs besides its input.
struct FuzzInput {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    /// Reads the next byte; 0 at the end.
    mutating func byte() -> Int { Int(rest.popFirst() ?? 0) }

    /// Reads up to the next line feed.
    mutating func line() -> ArraySlice<UInt8> {
        let line = rest.prefix { $0 != 0x0A }
        rest = rest[line.endIndex...].dropFirst()
        return line
    }

    /// Reads the next line as text; nil for an empty one.
    mutating func text() -> String? {
        let line = line()
        return line.isEmpty ? nil : String(decoding: line, as: UTF8.self)
    }
}

// MARK: Functions that the driver calls

nonisolated(unsafe) private var selected = FuzzTarget.frames

@_cdecl("fuzz_select")
public func select(_ name: UnsafePointer<CChar>) -> Int32 {
    guard let target = unsafe FuzzTarget(rawValue: String(cString: name)) else { return 0 }
    unsafe selected = target
    return 1
}

@_cdecl("fuzz_run")
public func run(_ bytes: UnsafePointer<UInt8>?, _ count: Int) {
    unsafe selected.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
}

@_cdecl("fuzz_list")
public func list() {
    for target in FuzzTarget.allCases { print(target.rawValue) }
}
