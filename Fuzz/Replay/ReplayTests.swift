import Foundation
import Testing

/// What the fuzzer once found stays found out: each input that broke something is given to its target again, without the
/// fuzzer. A promise that is broken ends the process of the tests.
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

    /// The samples of the wire format, whole and cut, show that the targets work at all.
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
