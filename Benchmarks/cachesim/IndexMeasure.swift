import Digests
import Foundation
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues

@testable import BrokerCore

/// The memory that the index takes for each entry besides the pixels, and the time of its operations. An entry is an
/// original with its header and one variant.
enum IndexMeasure {
    /// The default of `--memory-entries`.
    static let defaultCount = 65_536

    /// Prints the bytes per entry: with all that an origin usually says and a placeholder.
    static func showMemory(_ count: Int) throws {
        let before = residentBytes()
        let index = try filled(count, requests: 0).index
        let bytes = residentBytes() - before
        print("\(bytes / index.entries) resident bytes per entry")
    }

    /// Prints the nanoseconds of a hit's part of the index with 1,000 entries and with `count`, measured in turns.
    static func showTime(_ count: Int) throws {
        var small = try filled(1_000)
        var large = try filled(count)
        for _ in 0..<9 {
            let nanoseconds = (
                nanosecondsOfHit(&small.index, small.requests), nanosecondsOfHit(&large.index, large.requests)
            )
            print(Int(nanoseconds.0), Int(nanoseconds.1))
        }
    }

    /// Prints the nanoseconds to insert an entry into an empty index until it has `count`, the longest insertion, and
    /// the nanoseconds to evict one of `count`.
    static func showChanges(_ count: Int) throws {
        for _ in 0..<5 {
            var longest = 0
            var begun = processorTime()
            var last = begun
            let limit = count * 196_608
            var index = MemoryIndex(limit: limit, maximumEntries: count)
            try fill(&index, count) { _ in
                let now = processorTime()
                longest = max(longest, now - last)
                last = now
            }
            let insertion = (last - begun) / count
            // Half of them must make room for a job.
            index.reservedBytes = limit / 2
            begun = processorTime()
            let evicted = index.evictToFit().count
            print(insertion, longest, (processorTime() - begun) / evicted)
        }
    }

    /// Returns an index of `count` entries, and requests for some of them, with strings of their own as a client's
    /// have.
    private static func filled(
        _ count: Int, requests: Int = 100_000
    ) throws -> (index: MemoryIndex, requests: [GetRequest]) {
        var index = MemoryIndex(limit: .max, maximumEntries: count)
        try fill(&index, count) { _ in }
        var random = SplitMix64(state: 2)
        let requests = try (0..<requests).map { _ in
            GetRequest(id: 0, url: try url(.random(in: 0..<count, using: &random)), options: GetOptions())
        }
        return (index, requests)
    }

    private static func fill(_ index: inout MemoryIndex, _ count: Int, afterEach: (Int) -> Void) throws {
        let now = Instant(nanoseconds: 0)
        let form = Form.pixels(Transform(width: 256, height: 256))
        var header = ImageHeader(format: .jpeg, geometry: PixelGeometry(width: 4000, height: 3000)!)
        var random = SplitMix64(state: 1)
        for number in 0..<count {
            let key = OriginalKey(GetRequest(id: 0, url: try url(number), options: GetOptions()), uid: 1000)
            let words = (0..<4).map { _ in String(random.next() | 1 << 63, radix: 16) }
            let content = ContentKey(digest: ContentDigest(hexadecimal: words.joined())!, owner: nil)
            let original = OriginalFacts(content: content, bytes: 300_000, origin: statement(number, key, now))
            _ = index.insert(original, for: key)
            header.placeholder = Placeholder(
                averageColor: "#a0b0c0", thumbHash: Data(words.joined().utf8.prefix(24)).base64EncodedString())
            index.insert(header, of: content)
            index.insert(
                BufferID(number: number + 1), as: VariantKey(content: content, form: form), bytes: 196_608,
                geometry: PixelGeometry(width: 256, height: 192), at: now, worth: 1000 + number % 50_000)
            afterEach(number)
        }
    }

    /// Returns a URL of 60 to 80 bytes.
    private static func url(_ number: Int) throws -> SourceURL {
        let name = String(number &* 2_654_435_761, radix: 16)
        let padding = String(repeating: "x", count: 19 + number % 21 - name.count)
        let text = "https://images.example.org/photos/\(name)/\(padding)-p.jpg"
        // Without spare capacity, like a string read from a message.
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
        let now = Instant(nanoseconds: 0)
        let begun = processorTime()
        for request in requests {
            let key = OriginalKey(request, uid: 1000)
            guard let original = index.original(key), index.header(of: original.content) != nil,
                let buffer = index.buffer(VariantKey(content: original.content, form: form)),
                index.record(of: buffer)?.geometry != nil
            else { fatalError("An entry is not found.") }
            index.touch(buffer, at: now)
            index.hold(buffer, bytes: 262_144)
            precondition(!index.unhold(buffer))
        }
        return Double(processorTime() - begun) / Double(requests.count)
    }

    /// Returns the nanoseconds that this thread has run.
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
