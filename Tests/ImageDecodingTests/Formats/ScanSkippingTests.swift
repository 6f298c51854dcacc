import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Small results from progressive JPEGs, for which scans without effect are skipped.
@Suite struct ScanSkippingTests {
    static let picture = TestPicture.scene(width: 333, height: 250)
    /// Files with subsampled chroma, as most have it, with whole and partial blocks.
    static let files = [
        picture.jpeg(.progressive, quality: 85), TestPicture.scene(width: 512, height: 64).jpeg(.progressive),
    ]

    private func job(_ width: Int) -> DecodeJob {
        DecodeJob(id: 1, transform: Transform(width: width, alpha: .straight))
    }

    private func code(_ file: [UInt8], _ job: DecodeJob) -> ErrorCode? {
        do {
            _ = try decode(file, for: job)
            return nil
        } catch {
            return (error as? WireError)?.code ?? .internal
        }
    }

    /// Returns the offsets of the scan headers.
    private func scans(_ file: [UInt8]) -> [Int] { file.indices.filter { file[$0...].starts(with: [0xFF, 0xDA]) } }

    /// Compares with the file without its end marker, of which all scans are read.
    @Test(arguments: [0, 1]) func skippingChangesNothing(_ index: Int) throws {
        let file = Self.files[index]
        for width in [1, 5, 20, 21, 22, 32, 40, 60, 80, 200, 333] {
            #expect(try decode(file, for: job(width)) == decode(Array(file.dropLast(2)), for: job(width)))
        }
    }

    /// At one eighth, luma needs only the DC coefficients.
    @Test func unneededScansAreNotRead() throws {
        let file = Self.files[0]
        let scans = scans(file)
        // The last scan refines luma.
        #expect(scans.count == 10)
        var damaged = file
        for index in scans[9] + 40..<file.count - 2 { damaged[index] = 0 }
        #expect(try decode(damaged, for: job(20)) == decode(file, for: job(20)))
        #expect(code(damaged, job(200)) == .decodeFailed)
        // The scan before it refines chroma, which is subsampled, so that one eighth needs AC coefficients.
        damaged = file
        for index in scans[8] + 10..<scans[8] + 60 { damaged[index] = 0 }
        #expect(try (try? decode(damaged, for: job(20))) != decode(file, for: job(20)))
    }

    @Test func truncationIsDetected() throws {
        let file = Self.files[0]
        for count in stride(from: 200, to: file.count - 2, by: 61) {
            #expect(code(Array(file.prefix(count)), job(20)) == .truncated)
        }
        for scan in scans(file).dropFirst() { #expect(code(Array(file[..<scan]), job(20)) == .truncated) }
    }

    /// A file may omit the last bits of precision, and all its scans are then read.
    @Test func incompleteFilesAreReadInFull() throws {
        let file = Self.files[0]
        let scans = scans(file)
        let shorter = Array(file[..<scans[9]]) + [0xFF, 0xD9]
        let (small, whole) = (try decode(shorter, for: job(20)), try decode(file, for: job(20)))
        #expect(small.decibels(against: whole) > 35)
        // An invalid order: a refinement scan comes first.
        let wrong = Array(file[..<scans[1]]) + Array(file[scans[9]..<file.count - 2]) + Array(file[scans[1]...])
        #expect(code(wrong, job(20)) == .decodeFailed && code(wrong, job(200)) == .decodeFailed)
    }

    /// Every damaged file ends with an image or an error code.
    @Test(arguments: [0, 1]) func damagedFiles(_ index: Int) throws {
        var random = SeededRandom(state: 11)
        let codes: [ErrorCode?] = [
            nil, .truncated, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage,
        ]
        let file = Self.files[index]
        let headers = scans(file)
        for round in 0..<400 {
            var bytes = file
            for _ in 0..<Int.random(in: 1...5, using: &random) {
                // In every other round, within a scan header.
                let place =
                    round % 2 == 0
                    ? Int.random(in: 2..<bytes.count, using: &random)
                    : headers.randomElement(using: &random)! + Int.random(in: 0..<14, using: &random)
                bytes[min(place, bytes.count - 1)] = UInt8.random(in: 0...255, using: &random)
            }
            let code = code(bytes, job(20))
            #expect(codes.contains(code), "\(String(describing: code))")
        }
    }
}
