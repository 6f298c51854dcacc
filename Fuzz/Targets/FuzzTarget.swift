import IPCProtocol

/// Code that is given bytes of a stranger's choice. Whatever they are, it must neither crash nor break what it promises;
/// a promise that is broken ends the process.
public enum FuzzTarget: String, CaseIterable, Sendable {
    case frames
    case json
    case clientMessages = "client-messages"
    case workerMessages = "worker-messages"
    case replies
    case diskEntries = "disk-entries"
    case httpCaching = "http-caching"
    case urls
    case responseHeaders = "response-headers"
    case metadata
    case png
    case jpeg
    case webp
    case avif
    case gif
    case animation
    case partial

    /// Gives it `bytes`.
    public func run(_ bytes: [UInt8]) {
        switch self {
        case .frames: fuzzFrames(bytes)
        case .json: fuzzJSON(bytes)
        case .clientMessages: fuzzClientMessages(bytes)
        case .workerMessages: fuzzWorkerMessages(bytes)
        case .replies: fuzzReplies(bytes)
        case .diskEntries: fuzzDiskEntries(bytes)
        case .httpCaching: fuzzHTTPCaching(bytes)
        case .urls: fuzzURLs(bytes)
        case .responseHeaders: fuzzResponseHeaders(bytes)
        case .metadata: fuzzMetadata(bytes)
        case .png: fuzzPNG(bytes)
        case .jpeg: fuzzImage(bytes, .jpeg)
        case .webp: fuzzImage(bytes, .webp)
        case .avif: fuzzImage(bytes, .avif)
        case .gif: fuzzImage(bytes, .gif)
        case .animation: fuzzAnimation(bytes)
        case .partial: fuzzPart(bytes)
        }
    }
}

/// Ends the process unless `condition` holds.
func expect(_ condition: Bool, _ promise: String) {
    if !condition { fatalError("broken: \(promise)") }
}

/// Bytes that are taken from the front, for what a target needs beside its input.
struct FuzzInput {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    /// The next byte; 0 behind the last.
    mutating func byte() -> Int { Int(rest.popFirst() ?? 0) }

    /// What stands before the next line feed.
    mutating func line() -> ArraySlice<UInt8> {
        let line = rest.prefix { $0 != 0x0A }
        rest = rest[line.endIndex...].dropFirst()
        return line
    }

    /// The next line as text, nil for an empty one.
    mutating func text() -> String? {
        let line = line()
        return line.isEmpty ? nil : String(decoding: line, as: UTF8.self)
    }
}

// MARK: The driver's side

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
