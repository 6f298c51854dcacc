import Digests
import Foundation
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues

@testable import BrokerCore

/// What the index takes for each entry beside the pixels, and what a look into it costs: an original, a header and one
/// picture for each of many URLs.
enum IndexMeasure {
    /// What 1,000,000 entries take; `isComplete`: with what the origin said of each and with placeholders.
    static func showMemory(isComplete: Bool) throws {
        let before = residentBytes()
        let index = try filled(1_000_000, requests: 0, isComplete: isComplete).index
        let bytes = residentBytes() - before
        print("\(bytes / index.entries) resident bytes an entry")
    }

    /// Prints the nanoseconds of a hit's part of an index of 1,000 and of one of `count` entries, as often as they are
    /// measured in turns.
    static func showTime(_ count: Int) throws {
        var small = try filled(1_000, isComplete: false)
        var large = try filled(count, isComplete: false)
        for _ in 0..<9 {
            let nanoseconds = (
                nanosecondsOfHit(&small.index, small.requests), nanosecondsOfHit(&large.index, large.requests)
            )
            print(Int(nanoseconds.0), Int(nanoseconds.1))
        }
    }

    /// An index of so many entries, and requests for some of them: strings of their own, as a client's are.
    private static func filled(
        _ count: Int, requests: Int = 100_000, isComplete: Bool
    ) throws -> (index: MemoryIndex, requests: [GetRequest]) {
        var index = MemoryIndex(limit: .max, maximumEntries: count)
        let now = Instant(nanoseconds: Int64(ProcessInfo.processInfo.systemUptime * 1e9))
        let form = Form.pixels(Transform(width: 256, height: 256))
        var header = ImageHeader(format: .jpeg, geometry: PixelGeometry(width: 4000, height: 3000)!)
        let anyKey = OriginalKey(GetRequest(id: 0, url: try url(0), options: GetOptions()), uid: 1000)
        let shared = statement(0, anyKey, now)
        var random = SplitMix64(state: 1)
        for number in 0..<count {
            let key = OriginalKey(GetRequest(id: 0, url: try url(number), options: GetOptions()), uid: 1000)
            let words = (0..<4).map { _ in String(random.next() | 1 << 63, radix: 16) }
            let digest = ContentDigest(hexadecimal: words.joined())!
            let original = MemoryIndex.Original(
                digest: digest, bytes: 300_000, origin: isComplete ? statement(number, key, now) : shared)
            _ = index.insert(original, for: key)
            if isComplete {
                header.placeholder = Placeholder(
                    averageColor: "#a0b0c0", thumbHash: Data(words.joined().utf8.prefix(24)).base64EncodedString())
            }
            index.insert(header, of: digest)
            index.insert(
                BufferID(number: number + 1), as: VariantKey(digest: digest, form: form), bytes: 196_608,
                geometry: PixelGeometry(width: 256, height: 192), at: now)
        }
        let requests = try (0..<requests).map { _ in
            GetRequest(id: 0, url: try url(.random(in: 0..<count, using: &random)), options: GetOptions())
        }
        return (index, requests)
    }

    /// A URL of 60 to 80 bytes.
    private static func url(_ number: Int) throws -> SourceURL {
        let name = String(number &* 2_654_435_761, radix: 16)
        let padding = String(repeating: "x", count: 19 + number % 21 - name.count)
        let text = "https://images.example.org/photos/\(name)/\(padding)-p.jpg"
        // Just as long as need be, as what is read from a message is.
        return try SourceURL(String(decoding: Array(text.utf8), as: UTF8.self))
    }

    private static func statement(_ number: Int, _ key: OriginalKey, _ now: Instant) -> OriginStatement {
        let record = ResponseRecord(
            requestedAt: 1_700_000_000_000 + number, receivedAt: 1_700_000_000_050 + number,
            date: "Tue, 14 Nov 2023 22:13:\(10 + number % 50) GMT",
            cacheControl: ["public", "max-age=86400"].joined(separator: ", "),
            etag: "\"\(String(number + 1 << 40, radix: 16))-5f3c2b1a\"",
            lastModified: "Mon, 13 Nov 2023 11:12:\(10 + number % 50) GMT", contentType: "image/jpeg")
        return OriginStatement(
            record, for: key, varyKey: nil, settings: CacheSettings(), at: now, unixMs: 1_700_000_000_050)
    }

    private static func nanosecondsOfHit(_ index: inout MemoryIndex, _ requests: [GetRequest]) -> Double {
        let form = Form.pixels(Transform(width: 256, height: 256))
        let now = Instant(nanoseconds: Int64(ProcessInfo.processInfo.systemUptime * 1e9))
        let begun = processorTime()
        for request in requests {
            let key = OriginalKey(request, uid: 1000)
            guard let original = index.original(key), index.header(of: original) != nil,
                let buffer = index.buffer(of: original, as: form),
                index.buffers[buffer]?.geometry != nil
            else { fatalError("An entry is not found.") }
            index.touch(buffer, at: now)
            index.hold(buffer)
            precondition(!index.unhold(buffer))
        }
        return Double(processorTime() - begun) / Double(requests.count)
    }

    /// The nanoseconds that this thread has run.
    private static func processorTime() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }

    private static func residentBytes() -> Int {
        let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ")[1]
        return (pages.flatMap { Int($0) } ?? 0) * sysconf(Int32(_SC_PAGESIZE))
    }
}
