internal import Glibc
internal import IPCProtocol
internal import ImageBrokerClient
internal import JSONCoding
internal import LinuxSystem

/// Performs calls of the conformance tests in clients/conformance with the client for tasks.
///
///     imgprobe calls SOCKET [keep]
///
/// Each line of the input is a request, which may have `file`, the path of a local file, and `held`: true if its image
/// stays in use until the end. Each line of the output is the result: an object with `image`, `bytes` (hexadecimal),
/// `progress` and `before`, or with `reply`, `error` or `failure`.
struct ConformanceDriver {
    private let broker: AsyncImageBroker

    static func run(_ arguments: [String]) -> Never {
        guard arguments.count >= 3, let output = try? FileDescriptor.standardOutput() else { exit(126) }
        let driver = ConformanceDriver(
            broker: AsyncImageBroker(
                path: arguments[2], keeping: arguments.count > 3 ? .init(images: 8) : nil, reconnect: .seconds(10)))
        Task.detached {
            var held: [BrokerImage] = []
            while let line = readLine() {
                guard let call = try? Call(line) else { exit(126) }
                let (result, image) = await driver.perform(call)
                if call.isHeld, let image { held.append(image) }
                let sent: ()? = unsafe Array((result + "\n").utf8).withUnsafeBytes { unsafe try? output.write($0) }
                if sent == nil { exit(126) }
            }
            exit(0)
        }
        while true { pause() }
    }

    /// A request, read without regard to ranges, which the broker is to check.
    private struct Call {
        var type = ""
        var url = ""
        var file: String?
        var isHeld = false
        var options: GetOptions
        var prefetch = PrefetchRequest.blank
        var tier = CacheTier.all
        var olderThanSeconds: Int?

        init(_ line: String) throws {
            var fields = try Fields(reading: Array(line.utf8)[...])
            fields.string("type", &type)
            fields.string("url", &url, .optional)
            fields.string("file", &file)
            fields.flag("held", &isHeld)
            fields.choice("tier", &tier, omitting: .all)
            fields.integer("olderThanSeconds", &olderThanSeconds, in: 0...Int.max)
            if type == "prefetch" { prefetch.list(&fields) }
            var get = GetRequest.blank
            get.list(&fields)
            if fields.problem?.field.hasPrefix("variant.steps[") == true {
                get.options.variant.steps.append(.blur(sigma: 0))
            }
            let any = Int.min...Int.max
            fields.integer("quality", &get.options.quality, in: any, .optional)
            fields.integer("timeoutMs", &get.options.timeoutMs, in: any, .optional)
            fields.object("variant", .optional) { $0.integer("width", &get.options.variant.width, in: any) }
            options = get.options
        }

        func open() throws -> FileDescriptor? { try file.map { try FileDescriptor.open(readingAt: $0) } }
    }

    /// Performs a call. Returns the result as JSON, and the image if there is one.
    private func perform(_ call: Call) async -> (String, BrokerImage?) {
        do {
            if call.type == "get" { return try await get(call) }
            return (#"{"reply":\#(text(try await reply(call)))}"#, nil)
        } catch ClientError.refused(let error) {
            return (#"{"error":\#(text(.error(id: 0, error)))}"#, nil)
        } catch ClientError.protocolViolation {
            return (#"{"failure":"protocol-violation"}"#, nil)
        } catch ClientError.connectionLost {
            return (#"{"failure":"connection-lost"}"#, nil)
        } catch {
            return (#"{"failure":"\#(error)"}"#, nil)
        }
    }

    private func reply(_ call: Call) async throws -> Reply {
        let file = try call.open()
        switch call.type {
        case "query":
            let status =
                if let file {
                    try await broker.query(file, options: call.options)
                } else {
                    try await broker.query(call.url, options: call.options)
                }
            return .queried(id: 0, status)
        case "remove":
            if let file { return .removed(id: 0, count: try await broker.remove(file)) }
            return .removed(id: 0, count: try await broker.remove(call.url))
        case "prefetch":
            let urls = call.prefetch.urls.map(\.text)
            let (done, failed) = try await broker.prefetch(urls, options: call.prefetch.options)
            return .prefetched(id: 0, done: done, failed: failed, total: urls.count)
        case "clear":
            let (removed, bytes) = try await broker.clear(call.tier, olderThanSeconds: call.olderThanSeconds)
            return .cleared(id: 0, removed: removed, bytes: bytes)
        case "reload": return .reloaded(id: 0, try await broker.reload())
        case "upgrade":
            try await broker.upgrade()
            return .ok(id: 0)
        default: return .stats(id: 0, try await broker.stats())
        }
    }

    private func get(_ call: Call) async throws -> (String, BrokerImage?) {
        guard call.options.progress || call.options.staleFirst else {
            let image =
                if let path = call.file {
                    try await broker.image(atPath: path, options: call.options)
                } else {
                    try await broker.image(at: call.url, options: call.options)
                }
            return (description(of: image), image)
        }
        var progress: [String] = []
        var before: [String] = []
        for try await update in broker.load(call.url, options: call.options) {
            switch update {
            case .progress(let received, let expected):
                progress.append("[\(received),\(expected.map(String.init) ?? "null")]")
            case .preview(let image), .partial(let image): before.append(text(.image(id: 0, image.reply)))
            case .final(let image):
                let lists = "[\(progress.joined(separator: ","))]"
                let others = "[\(before.joined(separator: ","))]"
                return (description(of: image, #","progress":\#(lists),"before":\#(others)"#), image)
            }
        }
        return (#"{"failure":"no image"}"#, nil)
    }

    private func description(of image: BrokerImage, _ more: String = "") -> String {
        // Frames begin where the image does, which is anywhere in a segment.
        var reply = image.reply
        reply.offset = 0
        let blocks = MetadataKind.allCases.compactMap { kind in
            image.metadata(kind).map { #""\#(kind.rawValue)":"\#(Self.hexadecimal($0))""# }
        }.joined(separator: ",")
        let bytes: [UInt8] = image.withBytes { unsafe $0.withUnsafeBytes { unsafe Array($0) } }
        return #"""
            {"image":\#(text(.image(id: 0, reply))),"bytes":"\#(Self.hexadecimal(bytes))","blocks":{\#(blocks)}\#(more)}
            """#
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    private func text(_ reply: Reply) -> String {
        String(decoding: reply.encoded()[Frame.headerLength...], as: UTF8.self)
    }
}
