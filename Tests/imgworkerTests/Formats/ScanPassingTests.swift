import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import imgworker

/// Small results from JPEGs of several scans, of which those are passed over that add nothing.
@Suite struct ScanPassingTests {
    static let picture = TestPicture.scene(width: 333, height: 250)
    /// With less of colour than of light, as most have it; in whole blocks and not.
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

    /// Where the scans' headers begin.
    private func scans(_ file: [UInt8]) -> [Int] { file.indices.filter { file[$0...].starts(with: [0xFF, 0xDA]) } }

    /// Without its end marker a file is read to its end, scan by scan.
    @Test(arguments: [0, 1]) func nothingChanges(_ index: Int) throws {
        let file = Self.files[index]
        for width in [1, 5, 20, 21, 22, 32, 40, 60, 80, 200, 333] {
            #expect(try decode(file, for: job(width)) == decode(Array(file.dropLast(2)), for: job(width)))
        }
    }

    /// Of light an eighth needs the means of blocks alone.
    @Test func otherScansAreNotRead() throws {
        let file = Self.files[0]
        let scans = scans(file)
        // The last one refines light.
        #expect(scans.count == 10)
        var damaged = file
        for index in scans[9] + 40..<file.count - 2 { damaged[index] = 0 }
        #expect(try decode(damaged, for: job(20)) == decode(file, for: job(20)))
        #expect(code(damaged, job(200)) == .decodeFailed)
        // The one before it refines colour, of which there is less, so that an eighth of it has more than means.
        damaged = file
        for index in scans[8] + 10..<scans[8] + 60 { damaged[index] = 0 }
        #expect(try (try? decode(damaged, for: job(20))) != decode(file, for: job(20)))
    }

    @Test func whatIsCutOffIsStillMissed() throws {
        let file = Self.files[0]
        for count in stride(from: 200, to: file.count - 2, by: 61) {
            #expect(code(Array(file.prefix(count)), job(20)) == .truncated)
        }
        for scan in scans(file).dropFirst() { #expect(code(Array(file[..<scan]), job(20)) == .truncated) }
    }

    /// A file may leave out precision, and its rows are then what the library makes of that.
    @Test func incompleteFilesAreReadInFull() throws {
        let file = Self.files[0]
        let scans = scans(file)
        let shorter = Array(file[..<scans[9]]) + [0xFF, 0xD9]
        let (small, whole) = (try decode(shorter, for: job(20)), try decode(file, for: job(20)))
        #expect(small.decibels(against: whole) > 35)
        // Scans in an order that is none: what refines comes first.
        let wrong = Array(file[..<scans[1]]) + Array(file[scans[9]..<file.count - 2]) + Array(file[scans[1]...])
        #expect(code(wrong, job(20)) == .decodeFailed && code(wrong, job(200)) == .decodeFailed)
    }

    /// Whatever comes ends in a picture or in a code.
    @Test(arguments: [0, 1]) func hostileFiles(_ index: Int) throws {
        var random = SeededRandom(state: 11)
        let codes: [ErrorCode?] = [
            nil, .truncated, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage,
        ]
        let file = Self.files[index]
        let headers = scans(file)
        for round in 0..<400 {
            var bytes = file
            for _ in 0..<Int.random(in: 1...5, using: &random) {
                // Every other time in what is said of a scan.
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
