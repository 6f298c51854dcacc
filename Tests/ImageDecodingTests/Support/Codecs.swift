@testable import ImageDecoding

extension EncodedImage {
    /// Reads the header of a file of any family.
    init(_ source: ImageSource, for job: DecodeJob) throws(WireError) {
        try self.init(source, for: job, allCodecs, conversions: ColorConversions())
    }
}

extension DecodeJob {
    /// A job for more than pixels.
    init(_ transform: Transform, encoding: Encoding? = nil, wantsPlaceholder: Bool = false) {
        self.init(id: 1, transform: transform)
        (self.encoding, self.wantsPlaceholder) = (encoding, wantsPlaceholder)
    }
}

/// Decodes `file` as the worker does for a client, to straight RGBA by default.
func decode(
    _ file: [UInt8], _ format: PixelFormat = .rgba8, _ alpha: AlphaMode = .straight, maxPixels: Int = 50_000_000
) throws -> TestPicture {
    let job = DecodeJob(id: 1, transform: Transform(pixelFormat: format, alpha: alpha), maxPixels: maxPixels)
    return try decode(file, for: job)
}

func decode(_ file: [UInt8], with transform: Transform) throws -> TestPicture {
    try decode(file, for: DecodeJob(transform))
}

func decode(_ file: [UInt8], for job: DecodeJob) throws -> TestPicture {
    let image = try EncodedImage(try ImageSource(copying: file), for: job)
    let geometry = image.plan.result
    let output = try WritableBuffer(name: "test", size: geometry.bytes).descriptor
    _ = try image.decode(into: output)
    return TestPicture(width: geometry.width, height: geometry.height, bytes: try contents(of: output))
}

/// The result of decoding a file as the worker does for a job.
struct Decoded {
    let plan: DecodePlan
    let result: DecodeResult
    /// The pixels of all frames, or the encoded image.
    let bytes: [UInt8]

    init(_ source: ImageSource, for job: DecodeJob) throws {
        let image = try EncodedImage(source, for: job)
        plan = image.plan
        let size = plan.outputBytes(job.transform, job.encoding)
        let output = try WritableBuffer(name: "test", size: size).descriptor
        result = try image.decode(into: output)
        bytes = Array(try contents(of: output).prefix(result.bytes))
        #expect(bytes.count == result.bytes)
    }

    init(_ file: [UInt8], for job: DecodeJob) throws {
        try self.init(try ImageSource(copying: file), for: job)
    }

    init(_ file: [UInt8], with transform: Transform) throws {
        try self.init(file, for: DecodeJob(id: 1, transform: transform))
    }

    /// Decodes frames to straight RGBA.
    init(
        _ file: [UInt8], _ frames: FrameSelection = .all, width: Int? = nil, maxPixels: Int = 50_000_000,
        maxSourcePixels: Int = 300_000_000
    ) throws {
        let transform = Transform(width: width, alpha: .straight, frames: frames)
        try self.init(
            file, for: DecodeJob(id: 1, transform: transform, maxPixels: maxPixels, maxSourcePixels: maxSourcePixels))
    }

    var timing: AnimationTiming? { result.timing }

    var shown: (pictures: [TestPicture], timing: AnimationTiming?) { (pictures, timing) }

    /// The frames, of four bytes a pixel.
    var pictures: [TestPicture] {
        let geometry = plan.result
        return stride(from: 0, to: bytes.count, by: geometry.bytes).map {
            TestPicture(width: geometry.width, height: geometry.height, bytes: Array(bytes[$0..<$0 + geometry.bytes]))
        }
    }
}

/// A file and what is expected of it, by a name in the output of tests, which would otherwise print its bytes.
struct NamedFile<Expected: Sendable>: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let file: [UInt8]
    let expected: Expected

    init(_ name: String, _ file: [UInt8], _ expected: Expected) {
        (testDescription, self.file, self.expected) = (name, file, expected)
    }
}

extension NamedFile<Void> {
    init(_ name: String, _ file: [UInt8]) { self.init(name, file, ()) }
}

func plan(_ file: [UInt8], for job: DecodeJob = DecodeJob(id: 1)) throws -> DecodePlan {
    try EncodedImage(try ImageSource(copying: file), for: job).plan
}

func plan(_ file: [UInt8], with transform: Transform) throws -> DecodePlan {
    try plan(file, for: DecodeJob(transform))
}

/// Returns the error of `body`; nil if it succeeds.
func failure(of body: () throws -> some Any) -> WireError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? WireError ?? WireError(.internal, "\(error)")
    }
}

func failure(_ file: [UInt8], maxPixels: Int = 50_000_000) -> ErrorCode? {
    failure { try decode(file, maxPixels: maxPixels) }?.code
}

func failure(_ file: [UInt8], for job: DecodeJob) -> ErrorCode? { failure { try decode(file, for: job) }?.code }

func failure(_ file: [UInt8], with transform: Transform) -> ErrorCode? {
    failure { try decode(file, with: transform) }?.code
}

func expectFailure(
    _ file: [UInt8], _ code: ErrorCode, naming text: String, for job: DecodeJob = DecodeJob(id: 1),
    sourceLocation: SourceLocation = #_sourceLocation
) {
    let error = failure { try decode(file, for: job) }
    #expect(error?.code == code, sourceLocation: sourceLocation)
    #expect(error?.message.contains(text) == true, sourceLocation: sourceLocation)
}

/// Expects that the prefixes of `lengths` bytes of `file` fail as damaged, or with a code of `others`.
func expectDamage(
    _ file: [UInt8], _ lengths: StrideTo<Int>, others: [ErrorCode] = [],
    sourceLocation: SourceLocation = #_sourceLocation
) {
    for length in lengths {
        let code = failure(Array(file.prefix(length)))
        #expect(
            ([.truncated, .decodeFailed] + others).contains(code), "\(length) of \(file.count) bytes",
            sourceLocation: sourceLocation)
    }
}

extension TestPNG.Kind {
    var channels: Int { [Self.gray: 1, .palette: 1, .grayAlpha: 2, .rgb: 3][self] ?? 4 }
}

extension TestPNG {
    init(_ picture: TestPicture, _ kind: Kind = .rgba, interlaced: Bool = false) {
        self.init(
            width: picture.width, height: picture.height, kind: kind, depth: 8, interlaced: interlaced
        ) { x, y in (0..<kind.channels).map { Int(picture[x, y][$0]) } }
    }
}

#if !WITHOUT_AVIF
    extension TestAVIF {
        init(_ change: (inout TestAVIF) -> Void) {
            self.init()
            change(&self)
        }
    }
#endif

/// Calls `body` while free memory is filled with a byte, as an earlier image may have left it.
func withFreeMemory<Value>(of byte: UInt8, _ body: () throws -> Value) throws -> Value {
    // The C library then takes blocks of this size from its heap.
    _ = [UInt8](repeating: byte, count: 3 << 20)
    var blocks = (1...40).map { [UInt8](repeating: byte, count: 50_000 * $0) }
    // The others keep the C library from returning the memory to the system.
    for index in stride(from: 0, to: blocks.count, by: 2) { blocks[index] = [] }
    defer { blocks = [] }
    return try body()
}

extension [UInt8] {
    func places(of name: String) -> [Int] { indices.filter { self[$0...].starts(with: name.utf8) } }
}

extension TestPicture {
    func part(_ x: Int, _ y: Int, _ width: Int, _ height: Int) -> TestPicture {
        TestPicture(width: width, height: height) { column, row in self[x + column, y + row] }
    }

    func map(_ change: (SIMD4<UInt8>) -> SIMD4<UInt8>) -> TestPicture {
        TestPicture(width: width, height: height) { x, y in change(self[x, y]) }
    }

    /// Returns the largest difference at the centres of squares with `side` pixels a side, because lossy formats change
    /// colours at their edges.
    func difference(from other: TestPicture, inSquaresOf side: Int) -> Int {
        guard (width, height) == (other.width, other.height) else { return 255 }
        var largest = 0
        for y in stride(from: side / 2, to: height, by: side) {
            for x in stride(from: side / 2, to: width, by: side) {
                for channel in 0..<4 {
                    largest = max(largest, abs(Int(self[x, y][channel]) - Int(other[x, y][channel])))
                }
            }
        }
        return largest
    }

    /// Encodes the image as a client's: PNG and JPEG with the worker's encoder, WebP with the test's, which also writes
    /// lossless files.
    func encoded(_ format: Encoding.Format, lossless: Bool = true, quality: Int = 95) throws -> [UInt8] {
        if format == .webp { return webp(lossless: lossless, quality: quality) }
        return try encodedByWorker(Encoding(format, quality: quality))
    }

    /// Encodes the image, whose bytes are stored as `pixelFormat` and `alpha` say, with the worker's encoder.
    func encodedByWorker(
        _ encoding: Encoding, _ pixelFormat: PixelFormat = .rgba8, _ alpha: AlphaMode = .straight
    ) throws -> [UInt8] {
        let output = try WritableBuffer(name: "test").descriptor
        let raster = try PixelMemory(count: bytes.count)
        unsafe raster.bytes.copyBytes(from: bytes)
        let count = try ImageEncoder(
            encoding: encoding, geometry: geometry, pixelFormat: pixelFormat, alpha: alpha
        ).encode(raster, to: ResultFile(file: output))
        let file = try contents(of: output)
        guard file.count == count else { throw WireError(.internal, "\(file.count) bytes instead of \(count)") }
        return file
    }
}
