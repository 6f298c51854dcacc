import IPCProtocol
import JSONCoding
import WorkerProtocol

/// What became of one wish in one client process.
struct ClientResult: Equatable, Sendable {
    /// Which line of the list.
    var index: Int
    /// Its size; 0 for one that failed.
    var width = 0
    var height = 0
    /// The original's size.
    var originalWidth = 0
    var originalHeight = 0
    /// The original's media type.
    var contentType = ""
    /// The bytes of its pixels.
    var bytes = 0
    /// The SHA-256 of its pixels.
    var digest = ""
    /// The memfd's inode: processes that name the same one share its pages.
    var inode = 0
    /// From asking to having it.
    var microseconds = 0
    /// Why there is no picture.
    var failure: String?
}

/// What the demonstration tells a client process.
enum ClientOrder: Equatable, Sendable {
    /// Ask for everything.
    case start
    /// Let go of the pictures, and end.
    case end
}

/// What a client process reports.
enum ClientReport: Equatable, Sendable {
    /// It is connected to the broker.
    case ready
    /// A picture came, or failed.
    case result(ClientResult)
    /// All are answered, and held.
    case done
}

extension ClientOrder: WorkerMessage {
    var descriptorCount: Int { 0 }
    var type: String { self == .start ? "start" : "end" }
    func writeMembers(to writer: inout JSONWriter) {}

    init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        switch type {
        case "start": self = .start
        case "end": self = .end
        default: return nil
        }
    }
}

extension ClientReport: WorkerMessage {
    var descriptorCount: Int { 0 }

    var type: String {
        switch self {
        case .ready: "ready"
        case .result: "result"
        case .done: "done"
        }
    }

    func writeMembers(to writer: inout JSONWriter) {
        guard case .result(let result) = self else { return }
        writer.member("index", result.index)
        writer.member("width", result.width)
        writer.member("height", result.height)
        writer.member("originalWidth", result.originalWidth)
        writer.member("originalHeight", result.originalHeight)
        writer.member("contentType", result.contentType)
        writer.member("bytes", result.bytes)
        writer.member("digest", result.digest)
        writer.member("inode", result.inode)
        writer.member("microseconds", result.microseconds)
        writer.member("failure", result.failure)
    }

    init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        switch type {
        case "ready": self = .ready
        case "done": self = .done
        case "result":
            var result = ClientResult(index: 0)
            let any = 0...Int.max
            try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
                switch name {
                case "index": result.index = try reader.integer(name, in: any) ?? 0
                case "width": result.width = try reader.integer(name, in: any) ?? 0
                case "height": result.height = try reader.integer(name, in: any) ?? 0
                case "originalWidth": result.originalWidth = try reader.integer(name, in: any) ?? 0
                case "originalHeight": result.originalHeight = try reader.integer(name, in: any) ?? 0
                case "contentType": result.contentType = try reader.string(name) ?? ""
                case "bytes": result.bytes = try reader.integer(name, in: any) ?? 0
                case "digest": result.digest = try reader.string(name) ?? ""
                case "inode": result.inode = try reader.integer(name, in: any) ?? 0
                case "microseconds": result.microseconds = try reader.integer(name, in: any) ?? 0
                case "failure": result.failure = try reader.string(name)
                default: try reader.skip()
                }
            }
            self = .result(result)
        default: return nil
        }
    }
}
