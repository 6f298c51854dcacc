import Foundation
import Testing

/// Replays every input with which the fuzzer once found a defect, without the fuzzer. A violated invariant ends the
/// test process.
@Suite struct ReplayTests {
    private static let fuzz = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    private static let repository = fuzz.deletingLastPathComponent()

    private static func files(in folder: URL) -> [[UInt8]] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return names.sorted().compactMap { try? [UInt8](Data(contentsOf: folder.appending(path: $0))) }
    }

    @Test(arguments: FuzzTarget.allCases) func regressions(_ target: FuzzTarget) {
        for file in Self.files(in: Self.fuzz.appending(path: "Regressions/\(target.rawValue)")) { target.run(file) }
    }

    @Test func everyFolderHasATarget() throws {
        let folders = try FileManager.default.contentsOfDirectory(
            atPath: Self.fuzz.appending(path: "Regressions").path)
        for folder in folders { #expect(FuzzTarget(rawValue: folder) != nil, "\(folder)") }
    }

    /// Runs every target with the wire format's samples, complete and truncated, to check that the targets work.
    @Test(arguments: FuzzTarget.allCases) func samples(_ target: FuzzTarget) {
        let samples = ["HTTPValuesTests", "IPCProtocolTests", "WorkerProtocolTests"].flatMap {
            Self.files(in: Self.repository.appending(path: "Tests/\($0)/Golden"))
        }
        #expect(samples.count > 50)
        for sample in samples {
            target.run(sample.dropLast())
            target.run(Array(sample.prefix(sample.count / 2)))
        }
        target.run([])
    }
}
